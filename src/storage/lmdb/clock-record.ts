// The stored wall-clock time of a data directory: an entry in the `meta` table.

import type { ClockRecord, ClockRecords } from '../clock-guard.js';
import type { Store, Table } from '../store.js';

const KEY = 'clock';

export class LmdbClockRecords implements ClockRecords {
  readonly #meta: Table<ClockRecord>;

  constructor(
    private readonly store: Store,
    readonly now: () => number = Date.now,
  ) {
    this.#meta = store.table('meta');
  }

  async read(): Promise<ClockRecord | null> {
    this.store.refresh();
    return this.#meta.get(KEY) ?? null;
  }

  write(record: ClockRecord): Promise<void> {
    return this.#meta.put(KEY, record);
  }
}
