// Measures how fast a queue moves, for the Retry-After header of rejected requests. Event-loop thread only.

const REMEMBERED = 64;
/** Older starts are ignored. */
const WINDOW_MS = 120_000;
/** The estimate if no request has left the queue recently, and the minimum of all estimates. */
const UNKNOWN_MS = 1_000;

export class QueuePace {
  readonly #starts: number[] = []; // ring buffer of the most recent times at which a request left the queue
  #next = 0;

  constructor(private readonly now: () => number = performance.now.bind(performance)) {}

  /** Records that a request has left the queue. */
  started(): void {
    this.#starts[this.#next] = this.now();
    this.#next = (this.#next + 1) % REMEMBERED;
  }

  /**
   * Returns the estimated time in milliseconds until `waiting` requests have left the queue, at the pace of the last
   * two minutes. It is at least one second.
   */
  drainMs(waiting: number): number {
    const now = this.now();
    const recent = this.#starts.filter((time) => now - time <= WINDOW_MS);
    if (recent.length === 0) return UNKNOWN_MS;
    const span = Math.max(1, now - Math.min(...recent));
    return Math.max(UNKNOWN_MS, (waiting * span) / recent.length);
  }
}
