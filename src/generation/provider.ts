// Who turns a GenerationRequest into GenerationEvents: the engine of this process (local/local-provider.ts), or a server
// elsewhere. Everything above this room sees this face only. A provider refuses and fails with ApiErrors of our codes.
// Event-loop thread only.
//
//   check ─► prepare ─► PreparedGeneration ─► start ─► events
import type { TokenCount } from '../shared/token-count.js';
import type { GenerationEvent, GenerationRequest, SpelledToken } from './types.js';

/** Does work on so many characters on the account of who asks: it takes this thread's time. */
export type Charged = <T>(characters: number, work: () => T) => T;

/** What one answer takes of the memory that all large answers share (http.max_answering_bytes). */
export interface BufferReservation {
  /** Reserves this many more bytes. Throws ApiError 503 when the budget is full, and 422 if no answer may take this much. */
  hold(bytes: number): void;
  /** Returns this many bytes to the budget. */
  free(bytes: number): void;
  /** Returns everything. */
  release(): void;
}

/** For whom a request is prepared or counted. */
export interface Asker {
  /** Tells organizations apart: who waits is taken in turns of them. */
  readonly organization: number;
  /** Aborted when nobody wants it any more. */
  readonly signal?: AbortSignal | undefined;
  readonly charged?: Charged | undefined;
  /** Of a request that is recorded: what tells a server elsewhere whose trace it belongs to. */
  readonly traceHeaders?: Readonly<Record<string, string>> | undefined;
  /** Opens a reservation for what is kept of the answer while it is read. */
  reserveBuffer?(): BufferReservation | undefined;
}

/** One model that can be asked now. Holds no state of any request. */
export interface Provider {
  /** Prompt plus output, in tokens. */
  readonly contextWindow: number;
  /** What one answer may have, whatever the client asks. */
  readonly maxOutputTokens: number;
  /** `fp_` + 10 hex: same fingerprint, same arithmetic. */
  readonly fingerprint: string;
  /** Whether the model has a mode of reasoning. */
  readonly reasons: boolean;
  /** prepare() decodes every image of the request, and refuses the damaged; otherwise nobody does but the loader of images. */
  readonly decodesImages: boolean;

  /** The model's vocabulary; absent where it is not ours to use. */
  readonly vocabulary?: Vocabulary | undefined;

  /** What can be refused before images are fetched and a prompt is made. Throws ApiError 422. */
  check(request: GenerationRequest): void;
  /** A checked request, ready to start; nothing is reserved yet. Throws ApiError 400 (too long), 422, 503; the signal's reason if it aborts before. */
  prepare(request: GenerationRequest, asker: Asker): Promise<PreparedGeneration>;
  /** The prompt's tokens as prepare() would have them; one that does not fit is counted too. Throws ApiError 422, 503; the signal's reason. */
  count(request: GenerationRequest, asker: Asker): Promise<TokenCount>;
}

/** A model's tokens. */
export interface Vocabulary {
  readonly size: number;
  /** `addSpecial`: with what the vocabulary puts around a text. Spellings of special tokens are these. */
  encode(text: string, addSpecial: boolean): Promise<Int32Array>;
  /** Special tokens are spelled. Of tokens of the vocabulary. */
  decode(ids: Int32Array): string;
  spell(id: number): SpelledToken;
}

/** A request that is known to fit; nothing queued yet. */
export interface PreparedGeneration {
  /** Of the prompt, cached ones included. An estimate is replaced by what `started` says. */
  readonly promptTokens: TokenCount;
  readonly maxTokens: number; // effective cap per choice, clamped to model and context
  /** `maxTokens` is less than was asked for, because the context holds no more. */
  readonly cappedByContext: boolean;
  readonly n: number;
  /** Tokens of the prompt, where the provider knows them. */
  readonly promptIds?: ArrayLike<number> | undefined;
  /** Paths of keywords that the request's schemas have and that bind nothing: not strict, they are left out. */
  readonly leftOut: readonly string[];
  /** What else answers tell of how it is served. */
  readonly headers?: readonly (readonly [name: string, value: string])[] | undefined;
  /**
   * Hands the request over. `onEvent` is called on this thread, never before this returns: `started`, then of each choice
   * its events and `finished`; or, at any point instead of the rest, `failed`. Throws ApiError (capacity_exhausted, ...) at once.
   */
  start(onEvent: (event: GenerationEvent) => void): RunningGeneration;
}

export interface RunningGeneration {
  /** Stops it as soon as can be; no event follows. Idempotent, harmless after the end. */
  cancel(): void;
}
