// Deletes usage that is past its days. One per server, on the primary thread; its transactions are short and
// far apart, so that requests which write do not wait for it.

import { monthName, monthNumber } from '../admission/month-use.js';
import type { Config } from '../config/settings.js';
import type { Key, Store, Table } from '../storage/store.js';
import { HOUR_MS } from './sums.js';
import { organizationsOf } from './usage-query.js';

const DAY_MS = 24 * HOUR_MS;
/** Keys of one transaction. */
const BATCH = 1_000;
const FIRST_MS = 60_000;

export class UsageSweep {
  #timer: NodeJS.Timeout;
  #running: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(private readonly store: Store, private readonly settings: Config['usage'], private readonly onError: (error: unknown) => void) {
    const run = (): void => {
      this.#running = this.run().then(() => undefined, this.onError);
      this.#timer = setTimeout(run, HOUR_MS).unref();
    };
    this.#timer = setTimeout(run, FIRST_MS).unref();
  }

  /** Deletes what is past its days at `now`; resolves to how many entries that were. */
  async run(now = Date.now()): Promise<number> {
    const rows = await this.#remove(this.store.table('usage-rows'), {}, [now - this.settings.row_days * DAY_MS]);
    const end = now - this.settings.aggregate_days * DAY_MS;
    const hours = this.store.table<unknown>('usage-hours');
    const months = this.store.table<unknown>('usage-months');
    let removed = rows;
    for (const organization of organizationsOf(hours)) removed += await this.#remove(hours, { from: [organization] }, [organization, Math.floor(end / HOUR_MS)]);
    for (const organization of organizationsOf(months)) removed += await this.#remove(months, { from: [organization] }, [organization, monthName(monthNumber(end))]);
    return removed;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  async #remove(table: Table<unknown>, begin: { from?: Key }, to: Key): Promise<number> {
    let removed = 0;
    while (!this.#closed) {
      const keys = [...table.keys({ ...begin, to, limit: BATCH })];
      if (keys.length === 0) break;
      await this.store.transaction(() => { for (const key of keys) void table.remove(key); });
      removed += keys.length;
    }
    return removed;
  }
}
