// Steps between finding the model and reserving the request's share of the limits, used by all API formats. This file
// does not depend on any format's JSON. Event-loop thread only.
//
//   find ─► budget ─► ready ─► images ─► prepare (render, tokenize, fit) ─► reserve ─► generation-run.ts
//   404/403 429       503      422       422, too long 400                   429
import { performance } from 'node:perf_hooks';
import type { Admission, Reservation } from '../admission/admission.js';
import type { BudgetGate } from '../admission/budget-gate.js';
import type { HeldImages } from '../generation/images/held-images.js';
import type { ImageLoader } from '../generation/images/load-images.js';
import { apiError } from '../shared/errors.js';
import { lifecycleHeaders } from '../generation/model-deprecation.js';
import type { RequestContext, PreparedGeneration, PromptCount, Provider } from '../generation/provider.js';
import type { ServedModel, ServedModels } from '../generation/served-models.js';
import type { GenerationRequest, Message } from '../generation/types.js';
import { usesHostedTools, withHostedTools, withKnownTools } from '../generation/hosted-tools/hosted-run.js';
import type { McpDeps } from '../generation/mcp/mcp-tools.js';
import type { SearchService } from '../generation/web-search/search-service.js';
import type { Scope } from '../shared/identity.js';
import { permit, shownTo } from '../shared/permissions.js';
import type { RequestSink } from '../shared/request-entry.js';
import type { UsageSink } from '../shared/usage-sink.js';
import type { GenerationMeter, Telemetry } from '../telemetry/types.js';
import { contextOf, setHeaders, type Caller } from './caller.js';
import { finallyLeftOut, nameUnsent, renameLeftOut } from './foreign-thinking.js';
import { headerPaths, logList } from './ignored.js';
import type { Replays } from '../generation/replay/replays.js';
import { AFFINITY_HEADER, type Affinity } from './affinity.js';
import type { CacheDiagnostics } from './prompt-cache/cache-diagnostics.js';
import type { PromptMemory } from './prompt-cache/prompt-memory.js';
import type { RunningGenerations } from './running-generations.js';

/** The dependencies for counting or tokenizing a prompt. */
export interface PromptDeps {
  models: Pick<ServedModels, 'find'>;
  images: ImageLoader;
  limits: RequestLimits;
  /** Absent if this server runs no web searches. */
  webSearch?: Pick<SearchService, 'search'> | undefined;
  /** Absent if this server uses no MCP servers. */
  mcp?: McpDeps | undefined;
}

/** Configured limits of one request. */
export interface RequestLimits {
  maxN: number;
  maxTools: number;
}

export interface GenerationDeps extends PromptDeps {
  admission: Admission;
  /** Absent if no budget blocks requests. */
  budgets?: Pick<BudgetGate, 'check'> | undefined;
  telemetry: Telemetry;
  /** Receives one usage record for every admitted generation when it ends. */
  usage: UsageSink;
  /** Receives one request-log entry per generation when it ends. */
  requests: RequestSink;
  /** The generations running on this thread. */
  generations: RunningGenerations;
  /** Recent prompts, for cache diagnostics. */
  prompts: PromptMemory;
  /**
   * Records the token IDs of generated tool calls and reasoning blocks, so that they can be replayed in later prompts.
   * If absent, they are not recorded.
   */
  replays?: Pick<Replays, 'record'> | undefined;
  /** Set only if other processes serve the same models. */
  affinity?: Affinity | undefined;
}

/** A request with a reservation against the limits. The owner must either run or refund it. */
export interface AdmittedGeneration {
  readonly caller: Caller;
  readonly model: string;
  /** The model name from the client's request, which responses repeat. */
  readonly asked: string;
  readonly provider: Provider;
  readonly fingerprint: string;
  /** The request with its images loaded. GenerationRun.start() clears the messages once the run has started. */
  request: GenerationRequest;
  readonly prepared: PreparedGeneration;
  readonly reservation: Reservation;
  readonly generations: RunningGenerations;
  readonly meter: GenerationMeter;
  readonly usage: UsageSink;
  readonly requests: RequestSink;
  readonly prompts: PromptMemory;
  readonly replays: Pick<Replays, 'record'> | null;
  /** Stores the prompt for later comparisons. Null if the API format has no cache diagnostics. */
  diagnostics: CacheDiagnostics | null;
  /** The stored response to which the generation belongs; null if the response is not stored. */
  storedAs: string | null;
  /** Null until the run has started. */
  run: { abandon(): void } | null;
}

/** Looks up a model by its public name and checks that this key may use it. Throws ApiError 404 or 403. */
export function findModel(
  deps: Pick<PromptDeps, 'models'>,
  caller: Caller,
  name: string,
  scope: Scope = 'inference',
): ServedModel {
  const model = deps.models.find(name, shownTo(caller.identity));
  caller.annotate({ model: model.recordedAs, ...(model.recordedAs === model.name ? {} : { adapter: model.name }) });
  permit(caller.identity, scope, model.name);
  setHeaders(caller, lifecycleHeaders(model.lifecycle));
  return model;
}

/** A wait for a model to load is recorded in the trace only if it takes at least this long, in ms. */
const WAITED_MS = 5;

/** Loads the model if it is unloaded. Throws ApiError 503, or the signal's reason. */
async function readyProvider(caller: Caller, model: ServedModel, context: RequestContext): Promise<Provider> {
  const asked = performance.now();
  await model.ensureLoaded(context);
  const provider = model.ready();
  const ready = performance.now();
  // A model that is already loaded is ready within the same event-loop turn, so nothing is recorded for it.
  if (ready - asked > WAITED_MS) caller.trace?.recordSpan('load model', asked, ready);
  return provider;
}

interface LoadedRequest {
  provider: Provider;
  /** Includes the MCP tools that are known without querying their servers. */
  request: GenerationRequest;
  held: HeldImages;
}

/**
 * Loads the request's images and returns the request with the provider that accepts it. The caller must release `held`,
 * which keeps the images in memory. `own`: the request without MCP tools. `forPrompt`: whether the request will be
 * passed to prepare(). Throws ApiError 422 or 503, or the signal's reason.
 */
async function loadRequest(
  deps: Pick<PromptDeps, 'images' | 'limits' | 'mcp'>,
  caller: Caller,
  {
    model,
    request,
    context,
    forPrompt = false,
  }: { model: ServedModel; request: GenerationRequest; context: RequestContext; forPrompt?: boolean | undefined },
): Promise<LoadedRequest & { own: GenerationRequest }> {
  const known = withKnownTools(request, deps.mcp);
  checkToolCount(deps, known);
  const provider = await readyProvider(caller, model, context);
  const ready = performance.now();
  provider.check(known);
  const held = deps.images.hold(context.organization, !provider.decodesImages);
  const messages = await deps.images
    .load(request.messages, context, held, forPrompt && provider.decodesImages)
    .catch((error: unknown) => {
      held.release();
      throw error;
    });
  if (messages !== request.messages) caller.trace?.recordSpan('images', ready, performance.now());
  const isLoaded = messages === request.messages;
  return {
    provider,
    request: isLoaded ? known : { ...known, messages },
    own: isLoaded ? request : { ...request, messages },
    held,
  };
}

function checkToolCount({ limits: { maxTools } }: Pick<PromptDeps, 'limits'>, { tools }: GenerationRequest): void {
  if (tools.length > maxTools)
    throw apiError('array_too_long', `tools may have at most ${maxTools} tools on this server.`, 'tools');
}

/** A prompt's size, and the request's messages with their images loaded. */
export interface MeasuredPrompt {
  readonly count: PromptCount;
  readonly contextWindow: number;
  readonly messages: readonly Message[];
}

/**
 * Counts the prompt without setting any response header. Returns null if the client disconnected in the meantime.
 * Throws ApiError 422 or 503.
 */
export async function measurePrompt(
  deps: Pick<PromptDeps, 'images' | 'limits' | 'mcp'>,
  caller: Caller,
  model: ServedModel,
  asked: GenerationRequest,
): Promise<MeasuredPrompt | null> {
  const context = contextOf(caller);
  let loaded: LoadedRequest | undefined;
  try {
    loaded = await loadRequest(deps, caller, { model, request: asked, context });
    const { provider, request } = loaded;
    const count = await provider.count(request, context);
    return { count, contextWindow: provider.contextWindow, messages: request.messages };
  } catch (error) {
    if (caller.aborted) return null;
    throw error;
  } finally {
    loaded?.held.release();
  }
}

/**
 * Returns the number of prompt tokens, or null if the client disconnected in the meantime. Throws ApiError 422 or 503.
 */
export async function countPrompt(
  deps: Pick<PromptDeps, 'images' | 'limits' | 'mcp'>,
  caller: Caller,
  model: ServedModel,
  asked: GenerationRequest,
): Promise<number | null> {
  const measured = await measurePrompt(deps, caller, model, asked);
  if (measured === null) return null;
  nameCounted(caller, asked, measured.count);
  return measured.count.tokens;
}

/**
 * Reports, in a response header and in the request log, which tool calls and reasoning blocks in the prompt consist of
 * the token IDs that the model generated.
 */
function nameReplayed(caller: Caller, replayed: readonly string[] | undefined): void {
  if (replayed === undefined) return;
  caller.setHeader('x-replayed-items', headerPaths(replayed));
  caller.annotate({ replayed_items: logList(replayed) });
}

/** Sets the response headers for content and parameters that the count ignores. */
export function nameCounted(
  caller: Caller,
  asked: GenerationRequest,
  { exact, leftOut, ignored, replayed }: Omit<PromptCount, 'tokens'>,
): void {
  nameReplayed(caller, replayed);
  if (leftOut !== undefined) renameLeftOut(caller, asked.leftOut, finallyLeftOut(asked, leftOut));
  nameUnsent(caller, asked, ignored);
  if (!exact) caller.setHeader('x-token-count', 'estimate');
}

/**
 * Returns the prompt's token IDs, or null if the client disconnected in the meantime. Throws ApiError 400 (too long),
 * 422 or 503.
 */
export async function promptTokens(
  deps: Pick<PromptDeps, 'images' | 'limits' | 'mcp'>,
  caller: Caller,
  model: ServedModel,
  asked: GenerationRequest,
): Promise<ArrayLike<number> | null> {
  const context = contextOf(caller);
  let loaded: LoadedRequest | undefined;
  try {
    loaded = await loadRequest(deps, caller, { model, request: asked, context });
    // No output is generated, so no pages are read from disk.
    const { promptIds, replayed } = await loaded.provider.prepare(loaded.request, { ...context, readsPages: false });
    nameReplayed(caller, replayed);
    if (promptIds === undefined)
      throw apiError('unsupported_feature', 'Token IDs are not available for upstream models.', 'model');
    return promptIds;
  } catch (error) {
    if (caller.aborted) return null;
    throw error;
  } finally {
    loaded?.held.release();
  }
}

/**
 * Returns the model's provider. Loads the model first if it is unloaded. Throws ApiError 503, or the caller's abort
 * reason if the client disconnects in the meantime.
 */
export async function ensureLoaded(model: ServedModel, caller: Caller): Promise<Provider> {
  await model.ensureLoaded(contextOf(caller));
  return model.ready();
}

/** Returns whether the model's chat template reads a variable. If the model is not loaded, assumes that it does. */
export function templateKnows(model: ServedModel): (variable: string) => boolean {
  return (variable) => {
    let provider: Provider;
    try {
      provider = model.ready();
    } catch {
      return true;
    }
    return provider.knowsVariable?.(variable) === true;
  };
}

/** The limits and capabilities that the content checks of a chat completions request use. */
export function contentLimits(
  deps: Pick<PromptDeps, 'limits' | 'webSearch'>,
  model: ServedModel,
): { maxN: number; knows: (variable: string) => boolean; webSearch: boolean } {
  return { maxN: deps.limits.maxN, knows: templateKnows(model), webSearch: deps.webSearch !== undefined };
}

/** Prepares a request whose images have been loaded. Throws like Provider.prepare(). */
export type Prepare = (
  provider: Provider,
  request: GenerationRequest,
  context: RequestContext,
) => Promise<PreparedGeneration>;

const prepareGeneration: Prepare = (provider, request, context) => provider.prepare(request, context);

/**
 * Runs all steps up to and including the reservation. `prepare`: used in place of Provider.prepare(). Returns null if
 * the client disconnected in the meantime. Throws ApiError 400 (too long), 422, 429 or 503.
 */
export async function admit(
  deps: GenerationDeps,
  caller: Caller,
  model: ServedModel,
  asked: GenerationRequest,
  prepare = prepareGeneration,
): Promise<AdmittedGeneration | null> {
  let loaded: (LoadedRequest & { own: GenerationRequest }) | undefined;
  let prepared: PreparedGeneration;
  const context = contextOf(caller);
  try {
    checkBudget(deps, caller);
    loaded = await loadRequest(deps, caller, { model, request: asked, context, forPrompt: true });
    const { provider, request, own } = loaded;
    const from = performance.now();
    const { webSearch: search, mcp } = deps;
    prepared = await prepare(provider, request, context);
    if (usesHostedTools(own, { search, mcp }))
      prepared = withHostedTools(prepared, {
        search,
        mcp,
        request: own,
        maxTools: deps.limits.maxTools,
        context: () => contextOf(caller),
        provider: () => ensureLoaded(model, caller),
      });
    recordPrepared(caller, from, prepared);
  } catch (error) {
    loaded?.held.release();
    if (caller.aborted) return null;
    await setLimitHeaders(deps, caller, model);
    throw error;
  }
  return reserveOrRelease(deps, caller, model, loaded, prepared);
}

/**
 * Like admit(), for requests that are not prepared by Provider.prepare() and contain no images. `prepare` is called
 * with the provider after the model has been loaded.
 */
export async function admitPrepared(
  deps: GenerationDeps,
  caller: Caller,
  model: ServedModel,
  request: GenerationRequest,
  prepare: (provider: Provider, context: RequestContext) => Promise<PreparedGeneration>,
): Promise<AdmittedGeneration | null> {
  const context = contextOf(caller);
  let provider: Provider;
  let prepared: PreparedGeneration;
  try {
    checkBudget(deps, caller);
    provider = await readyProvider(caller, model, context);
    const from = performance.now();
    prepared = await prepare(provider, context);
    recordPrepared(caller, from, prepared);
  } catch (error) {
    if (caller.aborted) return null;
    await setLimitHeaders(deps, caller, model);
    throw error;
  }
  const held = deps.images.hold(context.organization, false);
  return reserveOrRelease(deps, caller, model, { provider, request, held }, prepared);
}

/**
 * Adds rate-limit headers to the response of a request that is rejected before the reservation. Requests that are
 * rejected later already have these headers.
 */
async function setLimitHeaders(
  { admission }: Pick<GenerationDeps, 'admission'>,
  caller: Caller,
  model: ServedModel,
): Promise<void> {
  const headers = admission.headers(caller.identity, model.recordedAs, caller.errorFormat);
  setHeaders(caller, headers instanceof Promise ? await headers : headers);
}

function recordPrepared(caller: Caller, from: number, { promptTokens }: PreparedGeneration): void {
  caller.trace?.recordSpan('prepare', from, performance.now(), { 'gen_ai.usage.input_tokens': promptTokens.tokens });
}

/**
 * Reserves the request's share of the rate limits. If the request is not admitted, releases its images and cached
 * pages.
 */
async function reserveOrRelease(
  deps: GenerationDeps,
  caller: Caller,
  model: ServedModel,
  loaded: LoadedRequest,
  prepared: PreparedGeneration,
): Promise<AdmittedGeneration | null> {
  try {
    const admitted = caller.aborted ? null : await reserve(deps, caller, model, loaded, prepared);
    if (admitted === null) {
      loaded.held.release();
      prepared.discard?.();
    }
    return admitted;
  } catch (error) {
    loaded.held.release();
    prepared.discard?.();
    throw error;
  }
}

/**
 * Throws ApiError 429 if a budget is used up. A request with several generations is checked only once, so that it can
 * finish if its budget is used up while it runs.
 */
function checkBudget({ budgets }: Pick<GenerationDeps, 'budgets'>, caller: Caller): void {
  if (budgets === undefined || caller.budgetChecked === true) return;
  budgets.check(caller.identity);
  caller.budgetChecked = true;
}

async function reserve(
  deps: GenerationDeps,
  caller: Caller,
  model: ServedModel,
  { provider, request, held }: LoadedRequest,
  prepared: PreparedGeneration,
): Promise<AdmittedGeneration | null> {
  const { identity, errorFormat } = caller;
  const reserved = deps.admission.reserve({
    identity,
    model: model.recordedAs,
    promptTokens: prepared.promptTokens,
    statedCap: request.maxTokens === null ? null : prepared.maxTokens,
    modelMaximum: prepared.maxTokens,
    n: prepared.n,
  });
  const own = reserved instanceof Promise ? await reserved : reserved;
  const reservation =
    held.bytes === 0 && prepared.discard === undefined ? own : new HoldingReservation(own, held, prepared);
  if (caller.aborted) {
    reservation.refund();
    return null;
  }
  try {
    setHeaders(caller, reservation.headers(errorFormat));
    // Pooling requests do not use the prefix cache, so any process can serve them equally well.
    if (deps.affinity !== undefined && request.pooling === undefined)
      caller.setHeader(AFFINITY_HEADER, deps.affinity.of(identity.organizationId, model.name, request));
    caller.annotate({ admitted: true, prompt_tokens: prepared.promptTokens.tokens });
    if (prepared.ignoredKeywords.length > 0) {
      caller.setHeader('x-ignored-schema-keywords', headerPaths(prepared.ignoredKeywords));
      caller.annotate({ ignored_schema_keywords: logList(prepared.ignoredKeywords) });
    }
    nameReplayed(caller, prepared.replayed);
    if (prepared.headers !== undefined) setHeaders(caller, prepared.headers);
    const meter = deps.telemetry.generation({ model: model.recordedAs, endpoint: caller.endpoint });
    return {
      caller,
      model: model.recordedAs,
      asked: model.asked,
      provider,
      fingerprint: provider.fingerprint,
      request,
      prepared,
      reservation,
      generations: deps.generations,
      meter,
      usage: deps.usage,
      requests: deps.requests,
      prompts: deps.prompts,
      replays: deps.replays ?? null,
      diagnostics: null,
      storedAs: null,
      run: null,
    };
  } catch (error) {
    reservation.refund();
    throw error;
  }
}

/** A reservation that also releases the request's images and prepared resources when it ends. */
class HoldingReservation implements Reservation {
  constructor(
    private readonly own: Reservation,
    private readonly held: HeldImages,
    private readonly prepared: PreparedGeneration,
  ) {}

  headers(errorFormat: Caller['errorFormat']): [string, string][] {
    return this.own.headers(errorFormat);
  }

  settle(tokens: number): void {
    this.#release();
    this.own.settle(tokens);
  }

  refund(): void {
    this.#release();
    this.own.refund();
  }

  #release(): void {
    this.held.release();
    this.prepared.discard?.();
  }
}

/** Runs `work` on an admitted request whose run has not started. If `work` throws, the reservation is released. */
export function withAdmitted<T>(admitted: AdmittedGeneration, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (admitted.run === null) admitted.reservation.refund();
    else admitted.run.abandon();
    throw error;
  }
}
