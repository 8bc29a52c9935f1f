// Implements PromptPinStore on the `prompt-pins` table, keyed by the pinned prompt's ID.

import type { Store, Table } from '../../store.js';
import type { PinnedPromptRow, PromptPinStore } from '../../../dashboard/admin/prompt-pin-store.js';

export class LmdbPromptPins implements PromptPinStore {
  readonly #rows: Table<PinnedPromptRow>;

  constructor(private readonly store: Store) {
    this.#rows = store.table('prompt-pins');
  }

  all(): Promise<readonly PinnedPromptRow[]> {
    const rows = [...this.#rows.range()].map(({ value }) => value);
    return Promise.resolve(rows.sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1)));
  }

  put(row: PinnedPromptRow): Promise<void> {
    return this.store.transaction(() => void this.#rows.put(row.id, row));
  }

  remove(id: string): Promise<void> {
    return this.store.transaction(() => void this.#rows.remove(id));
  }
}
