// Limits how many requests without a valid API key enter the request log, so that a scanner, or a client that repeats a
// revoked key, neither fills the log nor delays other entries. One per HTTP worker thread; used only on its event loop.

const BURST = 120;
/** Sustained number of entries per minute, for all threads together. */
const PER_MINUTE = 60;

export class UnknownClientPace {
  #left = BURST;
  #at: number;

  /** `share`: returns this thread's share of a limit. */
  constructor(
    private readonly share: (limit: number) => number,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.#at = now();
  }

  /** Whether another entry is accepted now. */
  take(): boolean {
    const now = this.now();
    this.#left = Math.min(BURST, this.#left + ((now - this.#at) * this.share(PER_MINUTE)) / 60_000);
    this.#at = now;
    if (this.#left < 1) return false;
    this.#left--;
    return true;
  }
}
