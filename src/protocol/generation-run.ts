// What the three formats share of one generation: from a found model to the last event, with limits and
// metrics kept. A format gives a request and a sink; nothing here knows how events look on the wire.
// Event-loop thread only.
//
//   find ─► ready ─► images ─► prepare (render, tokenize, fit) ─► reserve ─► start ─► events ─► settle
//   404/403 503      422       422, too long 400                   429        503
import type { Admission, Reservation } from '../admission/admission.js';
import { permit } from '../identity/permissions.js';
import { apiError, toApiError, type ApiError, type ErrorCode, type WireShape } from '../errors.js';
import type { ImageLoader } from '../generation/images/image-loader.js';
import { lifecycleHeaders } from '../generation/model-lifecycle.js';
import type { Charged, Prompter } from '../generation/prompter.js';
import type { ServedModel, ServedModels } from '../generation/served-models.js';
import type { GenerationEvent, GenerationRequest, PreparedGeneration, RunningGeneration } from '../generation/types.js';
import type { Identity, Scope } from '../identity/identity.js';
import { headerPaths } from './ignored.js';
import type { RunningGenerations } from './running-generations.js';
import type { GenerationMeter, Telemetry } from '../telemetry/types.js';
import type { FinishedUsage, UsageSink } from '../shared/usage-sink.js';
import { countImages, RunUsage } from './run-usage.js';
import type { RunStatus } from './run-usage.js';

export interface GenerationDeps {
  models: ServedModels;
  images: ImageLoader;
  admission: Admission;
  telemetry: Telemetry;
  /** Is told of every generation that was admitted, once it has ended. */
  usage: UsageSink;
  limits: { maxN: number };
  /** Those under way on this thread. */
  generations: RunningGenerations;
}

/** Who asks, and where headers and log fields go. An Exchange is one but for `endpoint` and `shape`; so is a WebSocket turn. */
export interface Caller {
  readonly identity: Identity;
  readonly requestId: string;
  readonly endpoint: string;                     // route path, for metrics and usage
  readonly shape: WireShape;                     // dialect of the rate-limit headers
  readonly receivedAt: number;                   // performance.now()
  readonly aborted: boolean;
  /** Called once when the client goes away; at once if it already has. Who has none is asked `aborted` later. */
  onAborted?(callback: () => void): void;
  /** What large prompts take of the thread is the organization's (limits.loop_ms). */
  readonly charged?: Charged;
  setHeader(name: string, value: string): void;
  annotate(fields: Record<string, string | number | boolean | null>): void;
}

export interface Usage { promptTokens: number; cachedTokens: number; completionTokens: number; reasoningTokens: number }

/** A request that holds its place in the limits: run it or refund it. */
export interface AdmittedGeneration {
  readonly caller: Caller;
  readonly model: string;
  /** The model as the client named it: answers show this. */
  readonly asked: string;
  readonly fingerprint: string;
  /** Of the model: prompt plus output, in tokens. */
  readonly contextWindow: number;
  /** As asked for, images loaded. */
  readonly request: GenerationRequest;
  readonly prepared: PreparedGeneration;
  readonly reservation: Reservation;
  readonly generations: RunningGenerations;
  readonly meter: GenerationMeter;
  readonly usage: UsageSink;
  /** Once there is one. */
  run: GenerationRun | null;
}

/** The model by its public name, if this key may use it so. Throws ApiError 404, 403. */
export function findModel(deps: Pick<GenerationDeps, 'models'>, caller: Caller, name: string, scope: Scope = 'inference'): ServedModel {
  const model = deps.models.find(name);
  caller.annotate({ model: model.name });
  permit(caller.identity, scope, model.name);
  setHeaders(caller, lifecycleHeaders(model.lifecycle));
  return model;
}

interface LoadedRequest { prompter: Prompter; request: GenerationRequest }

/** A request with its images loaded, beside the prompter that takes it. Throws ApiError 422, 503; the signal's reason. */
async function loadRequest(deps: Pick<GenerationDeps, 'images'>, caller: Caller, model: ServedModel, request: GenerationRequest, signal: AbortSignal | undefined): Promise<LoadedRequest> {
  const prompter = model.ready();
  prompter.check(request);
  const messages = await deps.images.load(request.messages, { organization: caller.identity.organizationNumber, signal });
  return { prompter, request: messages === request.messages ? request : { ...request, messages } };
}

/** What becomes aborted with the client. */
function signalOf(caller: Caller): AbortSignal | undefined {
  if (caller.onAborted === undefined) return undefined;
  const controller = new AbortController();
  caller.onAborted(() => controller.abort());
  return controller.signal;
}

/** The tokens of a request's prompt; null if the client has gone meanwhile. Throws ApiError 422, 503. */
export async function countPrompt(deps: Pick<GenerationDeps, 'images'>, caller: Caller, model: ServedModel, asked: GenerationRequest): Promise<number | null> {
  const signal = signalOf(caller);
  try {
    const { prompter, request } = await loadRequest(deps, caller, model, asked, signal);
    return await prompter.count(request, caller.identity.organizationNumber, signal, caller.charged);
  } catch (error) {
    if (caller.aborted) return null;
    throw error;
  }
}

/** Everything up to the reservation. Null if the client has gone meanwhile. Throws ApiError 400 (too long), 422, 429, 503. */
export async function admit(deps: GenerationDeps, caller: Caller, model: ServedModel, asked: GenerationRequest): Promise<AdmittedGeneration | null> {
  const { identity, shape } = caller;
  let prompter: Prompter;
  let request: GenerationRequest;
  let prepared: PreparedGeneration;
  const signal = signalOf(caller);
  try {
    ({ prompter, request } = await loadRequest(deps, caller, model, asked, signal));
    prepared = await prompter.prepare(request, identity.organizationNumber, signal, caller.charged);
  } catch (error) {
    if (caller.aborted) return null;
    // Also a refusal here tells the client where its limits stand; those below carry it themselves.
    setHeaders(caller, deps.admission.headers(identity, model.name, shape));
    throw error;
  }
  if (caller.aborted) return null;

  const reservation = deps.admission.reserve({
    identity, model: model.name, promptTokens: prepared.promptTokens,
    statedCap: request.maxTokens === null ? null : prepared.maxTokens,
    modelMaximum: prepared.maxTokens, n: prepared.n,
  });
  try {
    setHeaders(caller, reservation.headers(shape));
    caller.annotate({ admitted: true, prompt_tokens: prepared.promptTokens });
    if (prepared.leftOut.length > 0) {
      const paths = headerPaths(prepared.leftOut);
      caller.setHeader('x-ignored-schema-keywords', paths);
      caller.annotate({ ignored_schema_keywords: paths });
    }
    const meter = deps.telemetry.generation({
      model: model.name, endpoint: caller.endpoint, choices: prepared.n, receivedAt: caller.receivedAt,
    });
    return { caller, model: model.name, asked: model.asked, fingerprint: prompter.fingerprint, contextWindow: prompter.contextWindow, request, prepared, reservation, generations: deps.generations, meter, usage: deps.usage, run: null };
  } catch (error) {
    reservation.refund();
    throw error;
  }
}

/** What is done with an admitted request until its run has begun. If that fails, nothing goes on and no place stays taken. */
export function withAdmitted<T>(admitted: AdmittedGeneration, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (admitted.run === null) admitted.reservation.refund();
    else admitted.run.abandon();
    throw error;
  }
}

/** Takes the events of one run. What it throws ends the run: an ApiError as that error, anything else as an internal failure. */
export interface RunSink {
  event(event: Exclude<GenerationEvent, { type: 'failed' }>): void;
  /** After the last choice's `finished`; the accounts are settled. */
  complete(usage: Usage): void;
  /** Instead of complete(). Nothing follows. */
  failed(error: unknown): void;
}

/** One generation under way: hands events on, keeps the accounts, ends exactly once. */
export class GenerationRun {
  readonly usage: Usage;
  #running: RunningGeneration | null = null;
  #choicesLeft: number;
  #generated = 0;               // tokens seen so far, for the settlement of a cancelled request
  #reasoned = 0;                // of them in reasoning
  readonly #record: RunUsage;
  #ended = false;
  #leave: () => void = () => undefined;

  /** `stream`: the answer is wanted piece by piece, for the record of usage. */
  constructor(private readonly admitted: AdmittedGeneration, private readonly sink: RunSink, stream: boolean) {
    const { caller, model, request } = admitted;
    this.#record = new RunUsage({ caller, model, stream, images: countImages(request.messages) }, admitted.usage);
    admitted.run = this;
    this.usage = { promptTokens: admitted.prepared.promptTokens, cachedTokens: 0, completionTokens: 0, reasoningTokens: 0 };
    this.#choicesLeft = admitted.prepared.n;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Throws ApiError if the engine does not take the request; nothing was counted then. */
  start(): void {
    if (this.#ended) return;   // given up before it began
    try {
      this.#running = this.admitted.prepared.start((event) => this.#onEvent(event));
    } catch (error) {
      this.#ended = true;
      this.admitted.reservation.refund();
      this.#record.refused(toApiError(error));
      this.#showLimits();
      throw error;
    }
    this.#leave = this.admitted.generations.add(this.admitted.caller.identity.organizationId, this);
  }

  /** Ends it with an error that the client is told. The sink hears nothing more. */
  stop(error: unknown): void {
    if (this.#ended) return;
    this.#running?.cancel();
    this.#end();
    this.#failWith(toApiError(error));
    this.sink.failed(error);
  }

  /** Whoever was to answer has failed: as if it had never begun, if it has not. */
  abandon(): void {
    if (this.#ended) return;
    if (this.#running !== null) {
      this.cancel();
      return;
    }
    this.#end();
    this.admitted.reservation.refund();
  }

  /** Nobody wants the rest: stops it before the engine's next step. The sink hears nothing more. */
  cancel(): void {
    if (this.#ended) return;
    this.#end();
    this.#running?.cancel();
    this.admitted.meter.cancelled();
    this.#settle('cancelled', null, null);
    this.admitted.caller.annotate({ completion_tokens: this.usage.completionTokens, finish: 'cancelled' });
  }

  /** The record of it if the process ended now; null as long as nothing counts, and once it has ended. */
  soFar(): FinishedUsage | null {
    if (this.#ended || this.#generated === 0) return null;
    const usage = { ...this.usage, completionTokens: this.#generated, reasoningTokens: this.#reasoned };
    return this.#record.row(usage, 'failed', null, 'internal_error' satisfies ErrorCode);
  }

  /** A failure of our own must end this answer alone, not the process. */
  #onEvent(event: GenerationEvent): void {
    if (this.#ended) return;
    try {
      this.#take(event);
    } catch (error) {
      this.#running?.cancel();
      this.stop(error);
    }
  }

  #take(event: GenerationEvent): void {
    const { caller, meter } = this.admitted;
    switch (event.type) {
      case 'failed':
        this.#fail(event);
        return;
      case 'started':
        this.usage.cachedTokens = event.cachedTokens;
        caller.annotate({ cached_tokens: event.cachedTokens, queue_ms: Math.round(event.queueMs) });
        meter.started(event);
        this.#record.started();
        break;
      case 'finished':
        this.usage.completionTokens += event.completionTokens;
        this.usage.reasoningTokens += event.reasoningTokens;
        break;
      default:
        this.#generated += event.tokens;
        if (event.type === 'text' && event.section === 'reasoning') this.#reasoned += event.tokens;
        this.#record.tokens(event.tokens);
        meter.token(event.tokens, event.choice);
    }
    this.sink.event(event);
    if (event.type !== 'finished') return;
    meter.finished(event);   // not before: a sink that refuses the answer makes it a failure
    if (--this.#choicesLeft > 0 || this.#ended) return;
    this.#end();
    this.#settle('completed', event.reason, null);
    caller.annotate({ completion_tokens: this.usage.completionTokens, finish: event.reason });
    try {
      this.sink.complete(this.usage);
    } catch (error) {
      this.sink.failed(error);
    }
  }

  #end(): void {
    this.#ended = true;
    this.#leave();
  }

  #fail(event: Extract<GenerationEvent, { type: 'failed' }>): void {
    this.#end();
    const error = failureError(event);
    this.#failWith(error);
    this.sink.failed(error);
  }

  /** What failed before its first token never counted. */
  #failWith(error: ApiError): void {
    this.admitted.meter.failed(error.code);
    if (Math.max(this.#generated, this.usage.completionTokens) > 0) {
      this.#settle('failed', null, error.code);
      this.admitted.caller.annotate({ completion_tokens: this.usage.completionTokens });
    } else {
      this.admitted.reservation.refund();
      this.#record.refused(error);
    }
    this.#showLimits();
  }

  #settle(status: RunStatus, finishReason: string | null, errorCode: ErrorCode | null): void {
    this.usage.completionTokens = Math.max(this.usage.completionTokens, this.#generated);
    this.usage.reasoningTokens = Math.max(this.usage.reasoningTokens, this.#reasoned);
    this.admitted.reservation.settle(this.usage.promptTokens + this.usage.completionTokens);
    this.#record.ended(this.usage, status, finishReason, errorCode);
  }

  /** What is left after a refund or a settlement, if headers can still be sent. */
  #showLimits(): void {
    setHeaders(this.admitted.caller, this.admitted.reservation.headers(this.admitted.caller.shape));
  }
}

function setHeaders(caller: Caller, headers: Iterable<readonly [name: string, value: string]>): void {
  for (const [name, value] of headers) caller.setHeader(name, value);
}

function failureError({ code, retryAfterMs }: Extract<GenerationEvent, { type: 'failed' }>): ApiError {
  switch (code) {
    case 'queue_timeout': return apiError('capacity_exhausted', 'The request waited too long in the queue.', null, { retryAfterMs });
    case 'engine_error': return apiError('model_error', 'The model failed on this request.', null);
    case 'shutdown': return apiError('shutting_down', 'The server is shutting down.', null);
  }
}
