// EngineHolds in the table `engine-holds`, keyed by engine.

import type { Store, Table } from '../../store.js';
import { isOver } from '../../../dashboard/admin/engine-holds.js';
import type { EngineHold, EngineHolds } from '../../../dashboard/admin/engine-holds.js';

export class LmdbEngineHolds implements EngineHolds {
  readonly #rows: Table<EngineHold>;

  constructor(private readonly store: Store) {
    this.#rows = store.table('engine-holds');
  }

  take(hold: EngineHold, isNew: boolean, now: number): Promise<boolean> {
    return this.store.transaction(() => {
      // Only one hold at a time, even on different engines: they share the machine, so concurrent measurements would
      // disturb each other.
      const others = [...this.#rows.range()].some(({ value }) => value.id !== hold.id && !isOver(value, now));
      if (others || (!isNew && this.#rows.get(hold.engine)?.id !== hold.id)) return false;
      void this.#rows.put(hold.engine, hold);
      return true;
    });
  }

  async of(engine: string): Promise<EngineHold | null> {
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

  async endPast(now: number): Promise<EngineHold[]> {
    const isPast = ({ value }: { value: EngineHold }): boolean => isOver(value, now);
    if (![...this.#rows.range()].some(isPast)) return [];
    return await this.store.transaction(() => {
      const past = [...this.#rows.range()].filter(isPast);
      for (const { key } of past) void this.#rows.remove(key);
      return past.map(({ value }) => value);
    });
  }
}
