// Implements AlertStore on the `alert-incidents` table, keyed by the incident's ID, which starts with the time. While
// the disk is full, when alerts are needed most, changes are kept in memory. They are written along with the next
// change once there is space again. Only the primary thread changes incidents.

import { isOpen } from '../../../alerts/incident.js';
import type { Incident } from '../../../alerts/incident.js';
import { MAX_INCIDENTS } from '../../../alerts/alert-store.js';
import type { AlertStore } from '../../../alerts/alert-store.js';
import { undoneBy } from '../../store.js';
import type { Store, Table } from '../../store.js';

export class LmdbAlertStore implements AlertStore {
  readonly #rows: Table<Incident>;
  /** Incidents that are not stored yet, by ID. */
  readonly #unwritten = new Map<string, Incident>();

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

  async begin(incident: Incident): Promise<boolean> {
    const all = this.#all();
    if (all.some(({ key, endedAt }) => key === incident.key && endedAt === null)) return false;
    const old = all.slice(0, Math.max(0, all.length + 1 - MAX_INCIDENTS)).filter((one) => !isOpen(one));
    await this.#write(
      incident,
      old.map(({ id }) => id),
    );
    return true;
  }

  async change(id: string, change: (before: Incident) => Incident | null): Promise<Incident | null> {
    const before = this.#unwritten.get(id) ?? this.#rows.get(id);
    const after = before === undefined ? null : change(before);
    if (after !== null) await this.#write(after, []);
    return after;
  }

  async #write(incident: Incident, erased: readonly string[]): Promise<void> {
    this.#unwritten.set(incident.id, incident);
    let written: Incident[] = [];
    try {
      await this.store.transaction(() => {
        written = [...this.#unwritten.values()];
        for (const one of written) void this.#rows.put(one.id, one);
        for (const id of erased) void this.#rows.remove(id);
      });
    } catch (error) {
      if (undoneBy(error) === null) throw error;
      return;
    }
    for (const one of written) if (this.#unwritten.get(one.id) === one) this.#unwritten.delete(one.id);
  }

  /** Oldest first. */
  #all(): Incident[] {
    const all = new Map([...this.#rows.range()].map(({ value }) => [value.id, value]));
    for (const one of this.#unwritten.values()) all.set(one.id, one);
    return [...all.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  }
}
