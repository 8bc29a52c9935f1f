// Implements SettingsLeases on the `engine-holds` table, keyed by engine.

import type { Store, Table } from '../../store.js';
import { isOver } from '../../../dashboard/admin/settings-leases.js';
import type { SettingsLease, SettingsLeases } from '../../../dashboard/admin/settings-leases.js';

export class LmdbEngineHolds implements SettingsLeases {
  readonly #rows: Table<SettingsLease>;

  constructor(private readonly store: Store) {
    this.#rows = store.table('engine-holds');
  }

  take(hold: SettingsLease, isNew: boolean, now: number): Promise<boolean> {
    return this.store.transaction(() => {
      // Only one lease is allowed at a time, even for different engines, because they share the machine and concurrent
      // measurements would interfere with each other.
      const others = [...this.#rows.range()].some(({ value }) => value.id !== hold.id && !isOver(value, now));
      if (others || (!isNew && this.#rows.get(hold.engine)?.id !== hold.id)) return false;
      void this.#rows.put(hold.engine, hold);
      return true;
    });
  }

  async of(engine: string): Promise<SettingsLease | null> {
    return this.#rows.get(engine) ?? null;
  }

  end(engine: string, id: string | null): Promise<boolean> {
    return this.store.transaction(() => {
      const held = this.#rows.get(engine);
      if (held === undefined || (id !== null && held.id !== id)) return false;
      void this.#rows.remove(engine);
      return true;
    });
  }

  async endPast(now: number): Promise<SettingsLease[]> {
    const isPast = ({ value }: { value: SettingsLease }): boolean => isOver(value, now);
    if (![...this.#rows.range()].some(isPast)) return [];
    return await this.store.transaction(() => {
      const past = [...this.#rows.range()].filter(isPast);
      for (const { key } of past) void this.#rows.remove(key);
      return past.map(({ value }) => value);
    });
  }
}
