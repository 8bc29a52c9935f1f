// A running engine. All requests on this thread share one event channel; each step's packed events are dispatched to
// their requests. Event-loop thread only.
import { performance } from 'node:perf_hooks';
import type { LoadOptions } from './addon-types.js';
import type { CompiledGrammar, GrammarOptions } from './addon-grammar-types.js';
import type {
  AdapterInfo,
  AdapterOptions,
  ModelInfo,
  NativeChannel,
  NativeEngine,
  NativeImage,
  NativeStats,
  NativeTunables,
  OpFigures,
  PlannedImage,
  SubmitOptions,
  TokenizeOptions,
} from './addon-types.js';
import { embedInputs, type EmbedOptions } from './embed.js';
import { EmbedQueue } from './embed-queue.js';
import { EventBacklog } from './event-backlog.js';
import { decodeEvents, type EngineEvent } from './events.js';
import type { TierClient } from './kv-tier/tier-client.js';
import { QueuePace } from './queue-pace.js';
import { shareOf, threadCount } from '../shared/thread-count.js';

/**
 * Texts up to this length are tokenized on the event loop, because at about 0.1 ms that is faster than a round trip to
 * another thread.
 */
const kSyncTextLength = 4_096;

/** Maximum number of prompt log probabilities delivered in one call. Delivering that many takes about a millisecond. */
const kPromptRows = 16;

/**
 * Resolves when the most recent adapter load on this thread ends. Loads run one after another, because each load blocks
 * a thread of the libuv thread pool while it reads the file and waits for the engine. All file reads of the process use
 * the same thread pool.
 */
let adapterLoads: Promise<unknown> = Promise.resolve();

export interface Generation {
  readonly id: number;
  /**
   * Cancels the request before the engine's next step; no events follow. Idempotent; has no effect on a finished
   * request.
   */
  cancel(): void;
  /**
   * Ends one choice as `end_of_turn` before the engine's next step. Its text so far and its `finished` event are still
   * emitted. Idempotent; has no effect on a finished choice.
   */
  finish(choice: number): void;
}

interface Listener {
  onEvent: (event: EngineEvent) => void;
  choicesLeft: number;
  /** Events to deliver later, in order of arrival; null if none. */
  late: EngineEvent[] | null;
  /** Whether the last event has been delivered or the request was cancelled. */
  over: boolean;
}

/** The storage tier of one engine; see kv-tier/tier-client.ts. */
export interface EngineTier {
  readonly client: TierClient;
  /** Identifies the engine within the process. */
  readonly key: string;
}

type PrecisionOptions = Partial<
  Pick<
    LoadOptions,
    | 'arithmetic'
    | 'batchInvariant'
    | 'kvType'
    | 'maxBatchTokens'
    | 'quantize'
    | 'visionMaxPixels'
    | 'visionMaxTiles'
    | 'visionPrecision'
    | 'visionResize'
  >
>;

export class Engine {
  readonly #native: NativeEngine;
  readonly #channel: NativeChannel;
  readonly #listeners = new Map<number, Listener>();
  readonly #late = new Set<Listener>(); // listeners whose last event has not been delivered yet
  readonly #queuedBackground = new Set<Listener>(); // background requests that the engine has not started
  readonly #backlog = new EventBacklog();
  readonly #pace = new QueuePace();
  #isDraining = false;
  readonly #embedQueue = new EmbedQueue(() => shareOf(this.#native.stats().queueMax));
  #closed: Promise<void> | null = null;
  /**
   * Called after each step's events and their listeners' microtasks, with the time since the engine produced the
   * events.
   */
  onDelivered: ((delayMs: number) => void) | null = null;
  /** Storage tier for KV pages that were evicted from memory; null if there is none. */
  tier: EngineTier | null = null;
  readonly arithmetic: LoadOptions['arithmetic'];
  /** The options that affect results bit for bit, joined into one string for the fingerprint. */
  readonly precision: string;

  /** `options`: the load options that affect results. */
  constructor(native: NativeEngine, options: PrecisionOptions = {}) {
    this.#native = native;
    const { arithmetic = 'production', kvType, quantize, maxBatchTokens } = options;
    this.arithmetic = arithmetic;
    this.precision = [
      arithmetic,
      // If results are not batch-invariant, they also depend on the maximum number of tokens per step.
      arithmetic === 'fast' || options.batchInvariant === false ? maxBatchTokens : 'any batch',
      kvType,
      quantize,
      options.visionPrecision,
      options.visionResize,
      options.visionMaxTiles,
      options.visionMaxPixels,
    ].join(' ');
    this.#channel = native.open((events, ageMs) => this.#deliver(events, ageMs));
  }

  get info(): ModelInfo {
    return this.#native.info;
  }
  get backend(): NativeEngine['backend'] {
    return this.#native.backend;
  }
  get plan(): NativeEngine['plan'] {
    return this.#native.plan;
  }
  get fileHash(): string {
    return this.#native.fileHash;
  }
  /** Number of this thread's unfinished requests. */
  get active(): number {
    return this.#listeners.size + this.#late.size;
  }
  /** Maximum number of prompt and completion tokens of a sequence. */
  get maxContext(): number {
    return this.#native.maxContext;
  }

  /** The vision encoder; null if the model has none. */
  get vision(): NativeEngine['vision'] {
    return this.#native.vision;
  }
  get visionProblem(): string | null {
    return this.#native.visionProblem;
  }
  /** Returns how an image of this size would be processed. Throws like NativeEngine.planImage. */
  planImage(width: number, height: number, low: boolean): PlannedImage {
    return this.#native.planImage(width, height, low);
  }
  /** Prepares an image for SubmitOptions.images with this engine. Runs off the event loop. */
  prepareImage(pixels: Uint8Array, width: number, height: number, low: boolean): Promise<NativeImage> {
    return this.#native.prepareImage(pixels, width, height, low);
  }

  /**
   * Queues a request. `onEvent` is called on this thread, and never before this function returns: one `started`, then
   * texts, and one `finished` per choice; or one `failed`, which ends the request. Throws like NativeChannel.submit.
   */
  generate(options: SubmitOptions, onEvent: (event: EngineEvent) => void): Generation {
    const id = this.#channel.submit(options);
    const listener: Listener = { onEvent, choicesLeft: options.n, late: null, over: false };
    this.#listeners.set(id, listener);
    if (options.background === true) this.#queuedBackground.add(listener);
    return {
      id,
      cancel: () => {
        if (listener.over) return;
        // If this request has ended, the engine may have given its ID to another request.
        const runs = this.#listeners.get(id) === listener;
        if (runs) this.#listeners.delete(id);
        this.#forget(listener);
        if (runs) this.#channel.cancel(id);
      },
      finish: (choice) => {
        if (this.#listeners.get(id) === listener) this.#channel.finish(id, choice);
      },
    };
  }

  /**
   * Embeds token sequences. Resolves with one pooled vector per input, which is not normalized, or with the scores of a
   * reranker. Requires `info.embeddings`. An input's vector is bit-identical in every batch.
   */
  embed(inputs: readonly Int32Array[], options: EmbedOptions): Promise<Float32Array[]> {
    const generate: Engine['generate'] = (request, onEvent) => this.generate(request, onEvent);
    return embedInputs({ queue: this.#embedQueue, generate }, inputs, options);
  }

  /** Loads a LoRA adapter after all earlier loads of this thread. Rejects like NativeEngine.loadAdapter. */
  loadAdapter(path: string, options: AdapterOptions): Promise<AdapterInfo> {
    const load = adapterLoads.then(() => this.#native.loadAdapter(path, options));
    adapterLoads = load.catch(() => undefined);
    return load;
  }
  /** Makes an adapter unavailable to new requests. Running requests finish normally. */
  unloadAdapter(id: number): Promise<void> {
    return this.#native.unloadAdapter(id);
  }
  /** Returns the adapters that requests can use, including adapters loaded by other threads. */
  adapters(): AdapterInfo[] {
    return this.#native.adapters();
  }

  /** The positions of a prompt with its images inserted. Throws like NativeEngine.positions. */
  positions(options: Pick<SubmitOptions, 'prompt' | 'images'>): ReturnType<NativeEngine['positions']> {
    return this.#native.positions(options);
  }

  tokenize(text: string, options: TokenizeOptions): Promise<Int32Array> {
    if (text.length > kSyncTextLength) return this.#native.tokenizeAsync(text, options);
    return Promise.resolve(this.#native.tokenize(text, options));
  }

  tokenBytes(token: number): Uint8Array {
    return this.#native.tokenBytes(token);
  }
  /** Returns the ID of the vocabulary token with exactly this text, or -1. */
  findToken(spelling: string): number {
    return this.#native.findToken(spelling);
  }
  detokenize(tokens: Int32Array): string {
    return this.#native.detokenize(tokens);
  }
  /** Compiles a grammar for SubmitOptions.format or CallOptions.grammars with this engine. Runs off the event loop. */
  compileGrammar(options: GrammarOptions): Promise<CompiledGrammar> {
    return this.#native.compileGrammar(options);
  }
  /**
   * Estimated milliseconds until all currently waiting requests have left the queue, based on the recent pace of this
   * thread's requests.
   */
  queueDrainMs(): number {
    return this.#pace.drainMs(this.#native.stats().waiting / threadCount);
  }
  stats(): NativeStats {
    return this.#native.stats();
  }
  /**
   * Number of requests in the queue, excluding this thread's background requests. Only the primary thread has
   * background requests.
   */
  waitingInForeground(): number {
    return Math.max(0, this.#native.stats().waiting - this.#queuedBackground.size);
  }
  /** Cost of each operation since the engine started; null unless it was loaded with `profile`. */
  profile(): OpFigures[] | null {
    return this.#native.profile();
  }
  /**
   * Changes settings of the running engine, starting with the next step or submission, for every thread that uses this
   * engine. Values are clamped to the sizes allocated on load.
   */
  configure(tunables: NativeTunables): void {
    this.#native.configure(tunables);
  }
  /**
   * Clears the prefix cache of one organization or, if none is given, of all organizations. Pages in use and pinned
   * pages are kept.
   */
  clearCache(organization?: number): void {
    this.#native.clearCache(organization);
  }
  /** Whether drain() has been called. */
  get isDraining(): boolean {
    return this.#isDraining;
  }
  /** Ends running requests with `time_limit` and refuses new ones. */
  drain(): void {
    this.#isDraining = true;
    this.#native.drain();
  }

  /**
   * Cancels this thread's requests without events, and releases the engine, which stops when its last user closes it.
   */
  close(): Promise<void> {
    if (this.#closed === null) {
      for (const listener of [...this.#listeners.values(), ...this.#late]) this.#forget(listener);
      this.#listeners.clear();
      this.#channel.close();
      this.#closed = this.#native.close();
    }
    return this.#closed;
  }

  #deliver(events: Uint8Array, ageMs: number): void {
    const began = performance.now();
    try {
      decodeEvents(events, (id, event) => this.#hand(id, event));
    } catch (error) {
      // #hand() isolates errors from listeners, so an error here means a corrupt event stream. The remaining events are
      // lost, so all requests fail.
      const listeners = [...this.#listeners.entries()];
      const message = error instanceof Error ? error.message : String(error);
      for (const [id, listener] of listeners) {
        this.#listeners.delete(id);
        this.#channel.cancel(id);
        listener.late = null;
        this.#notify(listener, { type: 'failed', code: 'engine_error', message });
      }
    }
    if (this.onDelivered !== null) queueMicrotask(() => this.onDelivered?.(ageMs + performance.now() - began));
  }

  #hand(id: number, event: EngineEvent): void {
    const listener = this.#listeners.get(id);
    if (listener === undefined) return; // cancelled in the meantime
    this.#queuedBackground.delete(listener); // any event means that the request has left the queue
    if (event.type === 'started') this.#pace.started();
    if (event.type === 'failed' || (event.type === 'finished' && --listener.choicesLeft === 0)) {
      this.#listeners.delete(id);
      if (listener.late !== null) this.#late.add(listener);
    }
    if (listener.late !== null) {
      listener.late.push(event);
    } else if (event.type === 'prompt' && event.logprobs.length > kPromptRows) {
      listener.late = [event];
      this.#backlog.add(() => this.#notifyLate(listener));
    } else {
      this.#notify(listener, event);
    }
  }

  /** Delivers some of the delayed events. Returns false if none are left. */
  #notifyLate(listener: Listener): boolean {
    const [event] = listener.late ?? [];
    if (event === undefined) return false;
    if (event.type === 'prompt' && event.logprobs.length > kPromptRows) {
      const logprobs = event.logprobs.splice(0, kPromptRows);
      const { first } = event;
      event.first += logprobs.length;
      this.#notify(listener, { type: 'prompt', first, logprobs });
    } else {
      listener.late?.shift();
      if (listener.late?.length === 0) listener.late = null;
      this.#notify(listener, event);
    }
    return listener.late !== null;
  }

  #notify(listener: Listener, event: EngineEvent): void {
    if (event.type !== 'failed' && (event.type !== 'finished' || listener.choicesLeft > 0 || listener.late !== null))
      return this.#call(listener, event);
    const { onEvent } = listener;
    this.#forget(listener);
    this.#call({ onEvent }, event);
  }

  /**
   * Also clears the listener's callback. Old hash tables of the map may still reference the listener, and the callback
   * references the whole request (see ActiveSet).
   */
  #forget(listener: Listener): void {
    this.#late.delete(listener);
    this.#queuedBackground.delete(listener);
    listener.over = true;
    listener.late = null;
    listener.onEvent = () => undefined;
  }

  #call(listener: Pick<Listener, 'onEvent'>, event: EngineEvent): void {
    try {
      listener.onEvent(event);
    } catch (error) {
      // The error is rethrown as an uncaught exception, but only after the other requests have received their events.
      queueMicrotask(() => {
        throw error;
      });
    }
  }
}
