// A stream that decodes without end, and its inter-token latency.
import type { Engine } from '../../src/engine/engine.js';
import { submission } from './engine-requests.js';

/**
 * Generates one response after another, because a small model reaches its context limit or the end of its response long
 * before the measurement ends. A gap is the time between two tokens, even if they belong to consecutive responses.
 */
export class SteadyAnswers {
  #handle: { cancel(): void } | null = null;
  #last: number | null = null;
  #arrived = 0;
  #stopped = false;
  #begun = 0;
  #failure: string | null = null;

  constructor(
    private readonly engine: Engine,
    private readonly onGap: (ms: number) => void,
    private readonly maxTokens = engine.maxContext - 32,
  ) {
    this.#next();
  }

  get begun(): number {
    return this.#begun;
  }

  stop(): void {
    this.#stopped = true;
    this.#handle?.cancel();
  }

  /** Throws if a response has failed, because the gaps would then have been measured on fewer streams. */
  check(): void {
    if (this.#failure !== null) throw new Error(`a steady response failed: ${this.#failure}`);
  }

  #next(): void {
    if (this.#stopped) return;
    this.#begun++;
    // Counts token ids, because a model with random weights may produce only tokens without text for long periods,
    // which cause no text events.
    this.#handle = this.engine.generate(
      { ...submission(this.engine, 16, this.maxTokens), returnTokens: true },
      (event) => {
        if (event.type === 'failed') this.#failure = event.message;
        if (event.type === 'finished') setImmediate(() => this.#next());
        if (event.type !== 'tokens') return;
        if (this.#arrived === 0) queueMicrotask(() => this.#tell());
        this.#arrived += event.ids.length;
      },
    );
  }

  /**
   * Tokens that arrive in the same event-loop turn share one gap: steps may be shorter than turns, and accepted draft
   * tokens arrive together.
   */
  #tell(): void {
    const now = performance.now();
    if (this.#last !== null) this.onGap((now - this.#last) / this.#arrived);
    this.#last = now;
    this.#arrived = 0;
  }
}
