// The interface that turns a GenerationRequest into GenerationEvents. It is implemented by this process's engine
// (local/local-provider.ts) and by upstreams. Code outside this directory uses only this interface. Providers reject
// requests and report failures with ApiErrors and this server's error codes. Event-loop thread only.
//
//   check ─► prepare ─► PreparedGeneration ─► start ─► events
import type { Miss } from '../engine/kv-tier/messages.js';
import type { BufferReservation } from '../shared/buffer-reservation.js';
import type { TokenCount } from '../shared/token-count.js';
import type { DecisionRequest } from './decisions.js';
import type { PoolingRequest, PoolingTask } from './pooling.js';
import type { GenerationEvent, GenerationRequest, LeftOut, SpelledToken, ReasoningEffort } from './types.js';

/**
 * Runs `work`, which processes this many characters, and charges the event-loop time that it takes to the organization.
 */
export type Charged = <T>(characters: number, work: () => T) => T;

/** The client on whose behalf a request is prepared or counted. */
export interface RequestContext {
  /** Identifies the organization. Waiting requests are served round-robin by organization. */
  readonly organization: number;
  /** The organization's ID. If absent, none of the request's data is kept on disk. */
  readonly organizationId?: string | undefined;
  /** Whether the request yields to all other requests, because no client is waiting for its result. */
  readonly isBackground?: boolean | undefined;
  /** If false, KV pages are not read from disk, because the request generates no output. */
  readonly readsPages?: boolean | undefined;
  /** Aborted when the result is no longer needed. */
  readonly signal?: AbortSignal | undefined;
  readonly charged?: Charged | undefined;
  /** Set for traced requests: headers that continue the trace at an upstream. */
  readonly traceHeaders?: Readonly<Record<string, string>> | undefined;
  /**
   * Opens a memory reservation for the parts of an upstream's response that are kept in memory while the response is
   * being read.
   */
  reserveBuffer?(): BufferReservation | undefined;
}

/** A model that is ready. Has no per-request state. */
export interface Provider {
  /** Maximum length of prompt and output together, in tokens. */
  readonly contextWindow: number;
  /** Maximum output tokens of one response, even if the client requests more. */
  readonly maxOutputTokens: number;
  /** `fp_` + 10 hex digits. Responses with the same fingerprint were computed with the same arithmetic. */
  readonly fingerprint: string;
  /** The reasoning efforts that change the prompt or the budget; ['none'] for a model without reasoning. */
  readonly efforts: readonly ReasoningEffort[];
  /** Whether prepare() decodes every image and rejects corrupt ones. If false, only the image loader decodes images. */
  readonly decodesImages: boolean;

  /** Set for a model that produces vectors or scores instead of text. */
  readonly pooler?: Pooler | null | undefined;

  /** Answers decision questions. Absent for upstream models. */
  readonly decider?: Decider | undefined;

  /** The model's vocabulary. Absent for upstream models. */
  readonly vocabulary?: Vocabulary | undefined;

  /** Returns whether the model's chat template reads a variable. Absent for upstream models. */
  knowsVariable?(name: string): boolean;
  /** Runs the checks that need neither images nor a prompt. Throws ApiError 422. */
  check(request: GenerationRequest): void;
  /**
   * Prepares a checked request. Nothing is queued yet. Throws ApiError 400 (too long), 422 or 503, or the signal's
   * reason if it is aborted.
   */
  prepare(request: GenerationRequest, context: RequestContext): Promise<PreparedGeneration>;
  /**
   * Counts the prompt tokens that prepare() would produce, even if they do not fit. Throws ApiError 422 or 503, or the
   * signal's reason.
   */
  count(request: GenerationRequest, context: RequestContext): Promise<PromptCount>;
}

/** `leftOut` and `ignored` are as in the `started` event. `replayed` is as in PreparedGeneration. */
export interface PromptCount extends TokenCount {
  readonly replayed?: readonly string[] | undefined;
  readonly leftOut?: readonly LeftOut[] | undefined;
  readonly ignored?: readonly string[] | undefined;
}

/** A model's vocabulary. */
export interface Vocabulary {
  readonly size: number;
  /**
   * `addSpecial`: whether to add the special tokens that the vocabulary puts around a text. The spelling of a special
   * token within the text is converted to that token.
   */
  encode(text: string, addSpecial: boolean): Promise<Int32Array>;
  /** Special tokens are included as text. All IDs must be in the vocabulary. */
  decode(ids: Int32Array): string;
  spell(id: number): SpelledToken;
}

/** A prompt in the form in which the prefix cache compares prompts. */
export interface PromptContent {
  /** One number per position: a token ID or, for a position of an image, a negative number from the image's hash. */
  readonly keys: Int32Array;
  /**
   * Number of positions before the template's generation prompt. The conversation's next prompt repeats only these
   * positions.
   */
  readonly history: number;
  /** The length of a cached prefix is a multiple of this many tokens. */
  readonly granularity: number;
}

/** The part of a prompt whose KV pages were read from the disk tier of the prefix cache. */
export interface FromDisk {
  readonly tokens: number;
  /** Why the remaining pages of the prompt were not read; null if all pages were read or the reason is unknown. */
  readonly miss: Miss | null;
}

/** A request that is known to fit in the context. It has not been queued yet. */
export interface PreparedGeneration {
  /** Number of prompt tokens, including cached ones. The count in the `started` event replaces an estimate. */
  readonly promptTokens: TokenCount;
  readonly maxTokens: number; // effective limit per choice, clamped to model and context
  /** Whether `maxTokens` is less than requested because the context is too small. */
  readonly cappedByContext: boolean;
  readonly n: number;
  /** The prompt's token IDs, if the provider knows them. */
  readonly promptIds?: ArrayLike<number> | undefined;
  /**
   * The tool calls (by ID) and reasoning blocks (by path in the request) in the prompt that consist of the token IDs
   * that the model generated. Absent if there are none.
   */
  readonly replayed?: readonly string[] | undefined;
  /** Returns the prompt in the form in which the prefix cache compares prompts. Absent for upstream models. */
  readonly content?: (() => PromptContent) | undefined;
  /** The part of the prompt that was read from disk. Absent if the request's KV pages are never kept on disk. */
  readonly fromDisk?: FromDisk | undefined;
  /**
   * Paths of schema keywords that are ignored because they are not supported. They occur only in non-strict schemas.
   */
  readonly ignoredKeywords: readonly string[];
  /** Additional response headers that describe how the request is served. */
  readonly headers?: readonly (readonly [name: string, value: string])[] | undefined;
  /**
   * Submits the request. `onEvent` is called on this thread, and never before start() has returned: first with
   * `started`, then with each choice's events and its `finished`. `failed` may occur at any point and is then the last
   * event. Throws ApiError (capacity_exhausted and others) synchronously. `responseId`: the stored response with which
   * the request's KV pages are kept.
   */
  start(onEvent: (event: GenerationEvent) => void, responseId?: string): RunningGeneration;
  /** Releases the request's resources. Must be called if start() is not called; harmless otherwise. Idempotent. */
  discard?(): void;
}

/** A prepared pooling request. Call results() only after the request's only choice has finished. */
export interface PreparedPooling extends PreparedGeneration {
  /** Paths of the inputs that were truncated. */
  readonly truncated: readonly string[];
  /**
   * The number of values per result: the vector's length, or 1 for a score. Null if unknown until the request has run.
   */
  readonly width: number | null;
  /** Returns one result per input, in the order of the inputs: a vector, or a relevance between 0 and 1. */
  results(): readonly Float32Array[];
}

/** A model that produces vectors or scores instead of text. */
export interface Pooler {
  readonly task: PoolingTask;
  /** Full length of the model's vectors; null if unknown. */
  readonly dimensions: number | null;
  /**
   * Allowed truncated vector lengths, all below `dimensions`. For an upstream model, all lengths that a client may
   * request.
   */
  readonly shorterDimensions: readonly number[];
  /**
   * Tokenizes and validates the inputs. Nothing is submitted to the engine yet. Throws ApiError 400 (too long), 422 or
   * 503, or the signal's reason if it is aborted.
   */
  prepare(request: PoolingRequest, context: RequestContext): Promise<PreparedPooling>;
}

/** A prepared decision request. Call probabilities() only after the request's only choice has finished. */
export interface PreparedDecisions extends PreparedGeneration {
  /** Returns one list per question, with one probability per allowed answer. Each list sums to 1. */
  probabilities(): readonly (readonly number[])[];
}

/** Answers questions about an input with a probability for each allowed answer. */
export interface Decider {
  /**
   * Builds the prompt of each question. Nothing is submitted to the engine yet. The images of the request must be
   * loaded. Throws ApiError 400 (too long), 422 or 503, or the signal's reason if it is aborted.
   */
  prepare(decisions: DecisionRequest, context: RequestContext): Promise<PreparedDecisions>;
}

export interface RunningGeneration {
  /** Stops the generation as soon as possible. No events follow. Idempotent; has no effect on a finished generation. */
  cancel(): void;
}

/** A problem with a model's chat template. */
export interface TemplateProblem {
  readonly reason: string;
  /** Whether the template cannot be used at all. If so, the model serves only /v1/completions. */
  readonly unusable: boolean;
}
