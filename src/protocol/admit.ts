// A request's way from a found model to its place in the limits. What the three formats share; nothing here knows how a
// request looked on the wire. Event-loop thread only.
//
//   find ─► ready ─► images ─► prepare (render, tokenize, fit) ─► reserve ─► generation-run.ts
//   404/403 503      422       422, too long 400                   429
import { performance } from 'node:perf_hooks';
import type { Admission, Reservation } from '../admission/admission.js';
import type { HeldImages } from '../generation/images/held-images.js';
import type { ImageLoader } from '../generation/images/image-loader.js';
import { apiError } from '../shared/errors.js';
import { lifecycleHeaders } from '../generation/model-lifecycle.js';
import type { Asker, PreparedGeneration, Provider } from '../generation/provider.js';
import type { ServedModel, ServedModels } from '../generation/served-models.js';
import type { GenerationRequest } from '../generation/types.js';
import type { Scope } from '../shared/identity.js';
import { permit } from '../shared/permissions.js';
import type { RequestSink } from '../shared/request-entry.js';
import type { UsageSink } from '../shared/usage-sink.js';
import type { GenerationMeter, Telemetry } from '../telemetry/types.js';
import { askerOf, setHeaders, type Caller } from './caller.js';
import { headerPaths } from './ignored.js';
import { AFFINITY_HEADER, type Affinity } from './affinity.js';
import type { RunningGenerations } from './running-generations.js';

export interface GenerationDeps {
  models: Pick<ServedModels, 'find'>;
  images: ImageLoader;
  admission: Admission;
  telemetry: Telemetry;
  /** Is told of every generation that was admitted, once it has ended. */
  usage: UsageSink;
  /** As `usage`, for the request log. */
  requests: RequestSink;
  limits: { maxN: number };
  /** Those under way on this thread. */
  generations: RunningGenerations;
  /** Where other processes serve the same. */
  affinity?: Affinity | undefined;
}

/** A request that holds its place in the limits: run it or refund it. */
export interface AdmittedGeneration {
  readonly caller: Caller;
  readonly model: string;
  /** The model as the client named it: answers show this. */
  readonly asked: string;
  readonly provider: Provider;
  readonly fingerprint: string;
  /** As asked for, images loaded; its messages until the run has begun, see GenerationRun.start(). */
  request: GenerationRequest;
  readonly prepared: PreparedGeneration;
  readonly reservation: Reservation;
  readonly generations: RunningGenerations;
  readonly meter: GenerationMeter;
  readonly usage: UsageSink;
  readonly requests: RequestSink;
  /** Once there is one. */
  run: { abandon(): void } | null;
}

/** The model by its public name, if this key may use it so. Throws ApiError 404, 403. */
export function findModel(
  deps: Pick<GenerationDeps, 'models'>,
  caller: Caller,
  name: string,
  scope: Scope = 'inference',
): ServedModel {
  const model = deps.models.find(name);
  caller.annotate({ model: model.name });
  permit(caller.identity, scope, model.name);
  setHeaders(caller, lifecycleHeaders(model.lifecycle));
  return model;
}

/** A shorter wait for a model is none. */
const WAITED_MS = 5;

interface LoadedRequest {
  provider: Provider;
  request: GenerationRequest;
  held: HeldImages;
}

/** A request with its images loaded, which are `held` until the caller releases them, beside the provider that takes it; `forPrompt`: it will be prepared. Throws ApiError 422, 503; the signal's reason. */
async function loadRequest(
  deps: Pick<GenerationDeps, 'images'>,
  caller: Caller,
  model: ServedModel,
  request: GenerationRequest,
  asker: Asker,
  forPrompt = false,
): Promise<LoadedRequest> {
  const asked = performance.now();
  await model.awake(asker);
  const provider = model.ready();
  const ready = performance.now();
  // A model that is loaded is ready within the same turn of the event loop.
  if (ready - asked > WAITED_MS) caller.trace?.stretch('load model', asked, ready);
  provider.check(request);
  const held = deps.images.hold(asker.organization, !provider.decodesImages);
  const messages = await deps.images
    .load(request.messages, asker, held, forPrompt && provider.decodesImages)
    .catch((error: unknown) => {
      held.release();
      throw error;
    });
  if (messages !== request.messages) caller.trace?.stretch('images', ready, performance.now());
  return { provider, request: messages === request.messages ? request : { ...request, messages }, held };
}

/** The tokens of a request's prompt; null if the client has gone meanwhile. Throws ApiError 422, 503. */
export async function countPrompt(
  deps: Pick<GenerationDeps, 'images'>,
  caller: Caller,
  model: ServedModel,
  asked: GenerationRequest,
): Promise<number | null> {
  const asker = askerOf(caller);
  let loaded: LoadedRequest | undefined;
  try {
    loaded = await loadRequest(deps, caller, model, asked, asker);
    const { tokens, exact } = await loaded.provider.count(loaded.request, asker);
    if (!exact) caller.setHeader('x-token-count', 'estimate');
    return tokens;
  } catch (error) {
    if (caller.aborted) return null;
    throw error;
  } finally {
    loaded?.held.release();
  }
}

/** The tokens themselves. Null if the client has gone meanwhile. Throws ApiError 400 (too long), 422, 503. */
export async function promptTokens(
  deps: Pick<GenerationDeps, 'images'>,
  caller: Caller,
  model: ServedModel,
  asked: GenerationRequest,
): Promise<ArrayLike<number> | null> {
  const asker = askerOf(caller);
  let loaded: LoadedRequest | undefined;
  try {
    loaded = await loadRequest(deps, caller, model, asked, asker);
    const { promptIds } = await loaded.provider.prepare(loaded.request, asker);
    if (promptIds === undefined)
      throw apiError('unsupported_feature', 'The tokens of this model are not known here: it runs elsewhere.', 'model');
    return promptIds;
  } catch (error) {
    if (caller.aborted) return null;
    throw error;
  } finally {
    loaded?.held.release();
  }
}

/** A model's provider, loaded if it rests. Throws ApiError 503; the caller's reason if it goes meanwhile. */
export async function awake(model: ServedModel, caller: Caller): Promise<Provider> {
  await model.awake(askerOf(caller));
  return model.ready();
}

/** Everything up to the reservation. Null if the client has gone meanwhile. Throws ApiError 400 (too long), 422, 429, 503. */
export async function admit(
  deps: GenerationDeps,
  caller: Caller,
  model: ServedModel,
  asked: GenerationRequest,
): Promise<AdmittedGeneration | null> {
  const { shape } = caller;
  let loaded: LoadedRequest | undefined;
  let prepared: PreparedGeneration;
  const asker = askerOf(caller);
  try {
    loaded = await loadRequest(deps, caller, model, asked, asker, true);
    const { provider, request } = loaded;
    const from = performance.now();
    prepared = await provider.prepare(request, asker);
    caller.trace?.stretch('prepare', from, performance.now(), {
      'gen_ai.usage.input_tokens': prepared.promptTokens.tokens,
    });
  } catch (error) {
    loaded?.held.release();
    if (caller.aborted) return null;
    // Also a refusal here tells the client where its limits stand; those below carry it themselves.
    const headers = deps.admission.headers(caller.identity, model.name, shape);
    setHeaders(caller, headers instanceof Promise ? await headers : headers);
    throw error;
  }
  try {
    const admitted = caller.aborted ? null : await reserve(deps, caller, model, loaded, prepared);
    if (admitted === null) loaded.held.release();
    return admitted;
  } catch (error) {
    loaded.held.release();
    throw error;
  }
}

async function reserve(
  deps: GenerationDeps,
  caller: Caller,
  model: ServedModel,
  { provider, request, held }: LoadedRequest,
  prepared: PreparedGeneration,
): Promise<AdmittedGeneration | null> {
  const { identity, shape } = caller;
  const reserved = deps.admission.reserve({
    identity,
    model: model.name,
    promptTokens: prepared.promptTokens,
    statedCap: request.maxTokens === null ? null : prepared.maxTokens,
    modelMaximum: prepared.maxTokens,
    n: prepared.n,
  });
  const own = reserved instanceof Promise ? await reserved : reserved;
  const reservation = held.bytes === 0 ? own : new HoldingReservation(own, held);
  if (caller.aborted) {
    reservation.refund();
    return null;
  }
  try {
    setHeaders(caller, reservation.headers(shape));
    if (deps.affinity !== undefined)
      caller.setHeader(AFFINITY_HEADER, deps.affinity.of(identity.organizationId, model.name, request));
    caller.annotate({ admitted: true, prompt_tokens: prepared.promptTokens.tokens });
    if (prepared.leftOut.length > 0) {
      const paths = headerPaths(prepared.leftOut);
      caller.setHeader('x-ignored-schema-keywords', paths);
      caller.annotate({ ignored_schema_keywords: paths });
    }
    if (prepared.headers !== undefined) setHeaders(caller, prepared.headers);
    const meter = deps.telemetry.generation({ model: model.name, endpoint: caller.endpoint });
    return {
      caller,
      model: model.name,
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
      run: null,
    };
  } catch (error) {
    reservation.refund();
    throw error;
  }
}

/** A reservation with whose end the images of its request are let go. */
class HoldingReservation implements Reservation {
  constructor(
    private readonly own: Reservation,
    private readonly held: HeldImages,
  ) {}

  headers(shape: Caller['shape']): [string, string][] {
    return this.own.headers(shape);
  }

  settle(tokens: number): void {
    this.held.release();
    this.own.settle(tokens);
  }

  refund(): void {
    this.held.release();
    this.own.refund();
  }
}

/** The work on an admitted request until its run has begun. If it fails, nothing goes on and no place stays taken. */
export function withAdmitted<T>(admitted: AdmittedGeneration, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (admitted.run === null) admitted.reservation.refund();
    else admitted.run.abandon();
    throw error;
  }
}
