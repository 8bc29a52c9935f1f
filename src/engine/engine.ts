// A running engine as the service sees it: one event channel of this thread, shared by all its requests,
// and the packed events of each step handed to the request they belong to. Event-loop thread only.
import { performance } from 'node:perf_hooks';
import type {
  CompiledGrammar,
  GrammarOptions,
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
import { EventBacklog } from './event-backlog.js';
import { decodeEvents, type EngineEvent } from './events.js';
import { QueuePace } from './queue-pace.js';
import { threadCount } from '../shared/thread-count.js';

/** A text this short is tokenized on the event loop: about 0.1 ms, less than a trip to another thread and back. */
const kSyncTextLength = 4_096;

/** So many of a prompt's log-probabilities are told at once: about a millisecond. */
const kPromptRows = 16;

export interface Generation {
  readonly id: number;
  /** Stops it before the engine's next step; no event follows. Idempotent, harmless after the end. */
  cancel(): void;
  /**
   * Ends one choice as `end_of_turn` before the engine's next step; what it said until then and its `finished`
   * still come. Idempotent, harmless after the end.
   */
  finish(choice: number): void;
}

interface Listener {
  onEvent: (event: EngineEvent) => void;
  choicesLeft: number;
  /** What is told later, in the order it came; null: nothing waits. */
  late: EngineEvent[] | null;
  /** It has been told the last, or wants no more. */
  over: boolean;
}

export class Engine {
  readonly #native: NativeEngine;
  readonly #channel: NativeChannel;
  readonly #listeners = new Map<number, Listener>();
  readonly #late = new Set<Listener>(); // those whose end waits to be told
  readonly #backlog = new EventBacklog();
  readonly #pace = new QueuePace();
  #closed: Promise<void> | null = null;
  /** Told after each step's events, and what their takers left to a microtask, how long ago the engine had them. */
  onDelivered: ((delayMs: number) => void) | null = null;

  constructor(native: NativeEngine) {
    this.#native = native;
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
  /** Requests of this thread that have not ended. */
  get active(): number {
    return this.#listeners.size + this.#late.size;
  }
  /** Prompt plus completion a sequence may have, in tokens. */
  get maxContext(): number {
    return this.#native.maxContext;
  }

  /** What sees images for it; null: nothing does. */
  get vision(): NativeEngine['vision'] {
    return this.#native.vision;
  }
  get visionProblem(): string | null {
    return this.#native.visionProblem;
  }
  /** What a picture of this size becomes. Throws what NativeEngine.planImage does. */
  planImage(width: number, height: number, low: boolean): PlannedImage {
    return this.#native.planImage(width, height, low);
  }
  /** A picture ready for SubmitOptions.images of this engine. Off the event loop. */
  prepareImage(pixels: Uint8Array, width: number, height: number, low: boolean): Promise<NativeImage> {
    return this.#native.prepareImage(pixels, width, height, low);
  }

  /**
   * Queues a request. `onEvent` is called on this thread: one `started`, then texts, one `finished` per
   * choice; or one `failed`, which ends it. Never before this returns. Throws what NativeChannel.submit does.
   */
  generate(options: SubmitOptions, onEvent: (event: EngineEvent) => void): Generation {
    const id = this.#channel.submit(options);
    const listener: Listener = { onEvent, choicesLeft: options.n, late: null, over: false };
    this.#listeners.set(id, listener);
    return {
      id,
      cancel: () => {
        if (listener.over) return;
        // The engine may give an ended request's number to a later one.
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

  tokenize(text: string, options: TokenizeOptions): Promise<Int32Array> {
    if (text.length > kSyncTextLength) return this.#native.tokenizeAsync(text, options);
    return Promise.resolve(this.#native.tokenize(text, options));
  }

  tokenBytes(token: number): Uint8Array {
    return this.#native.tokenBytes(token);
  }
  /** The token spelled exactly so in the vocabulary, or -1. */
  findToken(spelling: string): number {
    return this.#native.findToken(spelling);
  }
  detokenize(tokens: Int32Array): string {
    return this.#native.detokenize(tokens);
  }
  /** What a text has to be, ready for SubmitOptions.format or CallOptions.grammars of this engine. Off the event loop. */
  compileGrammar(options: GrammarOptions): Promise<CompiledGrammar> {
    return this.#native.compileGrammar(options);
  }
  /** Milliseconds until who waits now has left the queue, estimated from the recent pace of this thread's own. */
  queueDrainMs(): number {
    return this.#pace.drainMs(this.#native.stats().waiting / threadCount);
  }
  stats(): NativeStats {
    return this.#native.stats();
  }
  /** What each operation has cost since the start; null unless the engine was loaded with `profile`. */
  profile(): OpFigures[] | null {
    return this.#native.profile();
  }
  /** From the next step or submission on, for every thread that uses this engine; clamped to what was allocated at load. */
  configure(tunables: NativeTunables): void {
    this.#native.configure(tunables);
  }
  /** Ends what runs as `time_limit` and refuses new requests. */
  drain(): void {
    this.#native.drain();
  }

  /** Cancels this thread's requests without an event and lets go of the engine, which stops with its last holder. */
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
      // One request's listener must not take the others' events with it: hand() keeps its errors apart, so
      // this is a broken stream. What it would have said is lost, so everybody is told.
      const listeners = [...this.#listeners.entries()];
      const message = error instanceof Error ? error.message : String(error);
      for (const [id, listener] of listeners) {
        this.#listeners.delete(id);
        this.#channel.cancel(id);
        listener.late = null;
        this.#tell(listener, { type: 'failed', code: 'engine_error', message });
      }
    }
    if (this.onDelivered !== null) queueMicrotask(() => this.onDelivered?.(ageMs + performance.now() - began));
  }

  #hand(id: number, event: EngineEvent): void {
    const listener = this.#listeners.get(id);
    if (listener === undefined) return; // cancelled since
    if (event.type === 'started') this.#pace.started();
    if (event.type === 'failed' || (event.type === 'finished' && --listener.choicesLeft === 0)) {
      this.#listeners.delete(id);
      if (listener.late !== null) this.#late.add(listener);
    }
    if (listener.late !== null) {
      listener.late.push(event);
    } else if (event.type === 'prompt' && event.logprobs.length > kPromptRows) {
      listener.late = [event];
      this.#backlog.add(() => this.#tellLate(listener));
    } else {
      this.#tell(listener, event);
    }
  }

  /** Some of what waits. False: nothing does any more. */
  #tellLate(listener: Listener): boolean {
    const [event] = listener.late ?? [];
    if (event === undefined) return false;
    if (event.type === 'prompt' && event.logprobs.length > kPromptRows) {
      const logprobs = event.logprobs.splice(0, kPromptRows);
      const { first } = event;
      event.first += logprobs.length;
      this.#tell(listener, { type: 'prompt', first, logprobs });
    } else {
      listener.late?.shift();
      if (listener.late?.length === 0) listener.late = null;
      this.#tell(listener, event);
    }
    return listener.late !== null;
  }

  #tell(listener: Listener, event: EngineEvent): void {
    if (event.type !== 'failed' && (event.type !== 'finished' || listener.choicesLeft > 0 || listener.late !== null))
      return this.#call(listener, event);
    const { onEvent } = listener;
    this.#forget(listener);
    this.#call({ onEvent }, event);
  }

  /** It is emptied as well: tables that the map has outgrown still point to it, and through it to all of its request (see Roster). */
  #forget(listener: Listener): void {
    this.#late.delete(listener);
    listener.over = true;
    listener.late = null;
    listener.onEvent = () => undefined;
  }

  #call(listener: Pick<Listener, 'onEvent'>, event: EngineEvent): void {
    try {
      listener.onEvent(event);
    } catch (error) {
      // As an uncaught exception of its own, after the other requests have got their events.
      queueMicrotask(() => {
        throw error;
      });
    }
  }
}
