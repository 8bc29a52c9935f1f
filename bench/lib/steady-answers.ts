// A stream that generates tokens without end. Reports its inter-token latency.
import type { Engine } from '../../src/engine/engine.js';
import { submission } from './engine-requests.js';

/**
 * Generates one response after another, because a small model reaches its context limit or the end of its response long
 * before the measurement ends. A gap is the time between two tokens. The two tokens may belong to consecutive
 * responses.
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

  /** Throws if a response has failed. The latency was then measured with fewer streams than requested. */
  check(): void {
    if (this.#failure !== null) throw new Error(`a steady response failed: ${this.#failure}`);
  }

  #next(): void {
    if (this.#stopped) return;
    this.#begun++;
    // Gaps are measured between token IDs instead of text events. A model with random weights may generate tokens
    // without text for long periods.
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
   * Reports one gap per event-loop turn, divided by the number of tokens that arrived in the turn. Several tokens
   * arrive in one turn if engine steps are shorter than the turn, or if draft tokens are accepted.
   */
  #tell(): void {
    const now = performance.now();
    if (this.#last !== null) this.onGap((now - this.#last) / this.#arrived);
    this.#last = now;
    this.#arrived = 0;
  }
}
