// State shared by a run's threads: the next session, the phase of a request, and the progress. All state is in
// shared-memory counters that any thread may use.

import type { RunLength, LoadProgress } from './types.js';

const SESSION = 0,
  WARM = 1,
  MEASURED = 2,
  IS_MEASURING = 3,
  IS_SPENT = 4,
  SENT = 5,
  ANSWERED = 6,
  FAILED = 7,
  RUNNING = 8,
  TOKENS = 9,
  COUNTERS = 10;
// Time in microseconds from the start of the run to the start of the measured phase.
const MEASURED_FROM = 0;

/** Maximum number of requests in a run. It is limited because each request's record is kept in memory. */
export const MAX_REQUESTS = 2_000_000;

export interface LedgerMemory {
  readonly counters: SharedArrayBuffer;
  readonly times: SharedArrayBuffer;
}

export const newLedgerMemory = (): LedgerMemory => ({
  counters: new SharedArrayBuffer(COUNTERS * 4),
  times: new SharedArrayBuffer(8),
});

export class Ledger {
  readonly #counters: Int32Array;
  readonly #times: BigInt64Array;

  constructor(
    memory: LedgerMemory,
    private readonly warmup: RunLength,
    private readonly length: RunLength,
  ) {
    this.#counters = new Int32Array(memory.counters);
    this.#times = new BigInt64Array(memory.times);
  }

  nextSession(): number {
    return Atomics.add(this.#counters, SESSION, 1);
  }

  /** Returns the phase of a request that is due at `intended`, or null if no more requests should be sent. */
  admit(intended: number): 'warmup' | 'measured' | null {
    if (this.isSpent) return null;
    if (Atomics.load(this.#counters, IS_MEASURING) === 0) {
      if (this.#isWarming(intended)) return 'warmup';
      if (Atomics.compareExchange(this.#counters, IS_MEASURING, 0, 1) === 0)
        Atomics.store(this.#times, MEASURED_FROM, BigInt(Math.round(intended * 1000)));
    }
    const { requests, durationMs } = this.length;
    const before = Atomics.add(this.#counters, MEASURED, 1);
    const most = Math.min(requests ?? MAX_REQUESTS, MAX_REQUESTS);
    if (before >= most || (durationMs !== null && intended - this.#measuredFrom >= durationMs)) {
      this.spend();
      return null;
    }
    if (before === most - 1) this.spend();
    return 'measured';
  }

  /** Stops admitting requests. */
  spend(): void {
    Atomics.store(this.#counters, IS_SPENT, 1);
  }

  get isSpent(): boolean {
    return Atomics.load(this.#counters, IS_SPENT) === 1;
  }

  /** Counts a request's start and end. */
  begin(): void {
    Atomics.add(this.#counters, SENT, 1);
    Atomics.add(this.#counters, RUNNING, 1);
  }

  end(outcome: 'answered' | 'failed' | 'cancelled', outputTokens: number): void {
    Atomics.sub(this.#counters, RUNNING, 1);
    if (outcome !== 'cancelled') Atomics.add(this.#counters, outcome === 'answered' ? ANSWERED : FAILED, 1);
    Atomics.add(this.#counters, TOKENS, outputTokens);
  }

  progress(elapsedMs: number): LoadProgress {
    const read = (counter: number): number => Atomics.load(this.#counters, counter);
    const isMeasuring = read(IS_MEASURING) === 1;
    const { requests, durationMs } = this.length;
    const byCount = requests === null ? 0 : (read(ANSWERED) + read(FAILED)) / (requests + (this.warmup.requests ?? 0));
    const byTime = durationMs === null || !isMeasuring ? 0 : (elapsedMs - this.#measuredFrom) / durationMs;
    return {
      elapsedMs,
      phase: this.isSpent ? 'ending' : isMeasuring ? 'measured' : 'warmup',
      sent: read(SENT),
      answered: read(ANSWERED),
      failed: read(FAILED),
      running: read(RUNNING),
      outputTokens: read(TOKENS),
      done: Math.min(1, Math.max(byCount, byTime)),
    };
  }

  get #measuredFrom(): number {
    return Number(Atomics.load(this.#times, MEASURED_FROM)) / 1000;
  }

  #isWarming(intended: number): boolean {
    const { requests, durationMs } = this.warmup;
    if (requests === null && durationMs === null) return false;
    if (durationMs !== null && intended >= durationMs) return false;
    return requests === null || Atomics.add(this.#counters, WARM, 1) < requests;
  }
}
