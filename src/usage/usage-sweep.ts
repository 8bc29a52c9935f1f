// Erases usage after its retention period. One per server, on the primary thread.

import type { Config } from '../config/settings.js';
import { OPEN_GATE } from '../storage/erase-gate.js';
import type { EraseGate } from '../storage/erase-gate.js';
import { HOUR_MS } from './sums.js';
import type { UsageStore } from './usage-store.js';

const DAY_MS = 24 * HOUR_MS;
const FIRST_MS = 60_000;

export class UsageSweep {
  #timer: NodeJS.Timeout;
  #running: Promise<void> = Promise.resolve();
  readonly #closing = new AbortController();
  readonly #stopListening: () => void;

  constructor(
    private readonly store: Pick<UsageStore, 'erase'>,
    private readonly settings: Config['usage'],
    private readonly onError: (error: unknown) => void,
    private readonly gate: EraseGate = OPEN_GATE,
    private readonly now: () => number = Date.now,
  ) {
    const sweep = (): void => {
      this.#running = this.#running.then(() => this.run()).then(() => undefined, this.onError);
    };
    this.#stopListening = gate.onAllowed(sweep);
    const run = (): void => {
      sweep();
      this.#timer = setTimeout(run, HOUR_MS).unref();
    };
    this.#timer = setTimeout(run, FIRST_MS).unref();
  }

  /** Erases usage that is past its retention period at `now`. Resolves to the number of entries erased. */
  async run(now = this.now()): Promise<number> {
    if (!this.gate.allows()) return 0;
    const { row_days: rows, aggregate_days: sums } = this.settings;
    return this.store.erase({ rows: now - rows * DAY_MS, sums: now - sums * DAY_MS }, this.#closing.signal);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#stopListening();
    clearTimeout(this.#timer);
    await this.#running;
  }
}
