// AlertStore in the `alert-incidents` table, keyed by the incident's ID, which starts with the time.

import { isOpen } from '../../../alerts/incident.js';
import type { Incident } from '../../../alerts/incident.js';
import { MAX_INCIDENTS } from '../../../alerts/alert-store.js';
import type { AlertStore } from '../../../alerts/alert-store.js';
import type { Store, Table } from '../../store.js';

export class LmdbAlertStore implements AlertStore {
  readonly #rows: Table<Incident>;

  constructor(private readonly store: Store) {
    this.#rows = store.table('alert-incidents');
  }

  async newest(limit: number): Promise<Incident[]> {
    this.store.refresh(); // another thread writes the incidents
    return this.#all().slice(-limit).reverse();
  }

  async open(): Promise<Incident[]> {
    return this.#all().filter(isOpen);
  }

  begin(incident: Incident): Promise<boolean> {
    return this.store.transaction(() => {
      const all = this.#all();
      if (all.some(({ key, endedAt }) => key === incident.key && endedAt === null)) return false;
      void this.#rows.put(incident.id, incident);
      const old = all.slice(0, Math.max(0, all.length + 1 - MAX_INCIDENTS));
      for (const one of old) if (!isOpen(one)) void this.#rows.remove(one.id);
      return true;
    });
  }

  change(id: string, change: (before: Incident) => Incident | null): Promise<Incident | null> {
    return this.store.transaction(() => {
      const before = this.#rows.get(id);
      const after = before === undefined ? null : change(before);
      if (after !== null) void this.#rows.put(id, after);
      return after;
    });
  }

  /** Oldest first. */
  #all(): Incident[] {
    return [...this.#rows.range()].map(({ value }) => value);
  }
}
