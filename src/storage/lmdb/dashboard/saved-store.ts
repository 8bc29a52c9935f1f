// Implements SavedStore on three tables:
//
//   saved            [organization, id]         the row
//   saved-contents   [organization, id]         its encrypted content
//   saved-by-user    [user, organization, id]   true
//
// Erases in short transactions.

import type { Store, Table } from '../../store.js';
import { checkSaved } from '../../../dashboard/saved/saved-store.js';
import type { SavedChange, SavedRow, SavedStore } from '../../../dashboard/saved/saved-store.js';

const ERASED_AT_ONCE = 100;
const LAST = '\uffff';

export class LmdbSavedStore implements SavedStore {
  readonly #rows: Table<SavedRow>;
  readonly #contents: Table<string>;
  readonly #owned: Table<true>;

  constructor(
    private readonly store: Store,
    private readonly now: () => number = Date.now,
  ) {
    this.#rows = store.table('saved');
    this.#contents = store.table('saved-contents');
    this.#owned = store.table('saved-by-user');
  }

  add(row: SavedRow, sealedContent: string): Promise<void> {
    const { organizationId, userId, id } = row;
    return this.store.transaction(() => {
      const own = count(this.#owned.keys({ from: [userId, organizationId], to: [userId, organizationId, LAST] }));
      const all = count(this.#rows.keys({ from: [organizationId], to: [organizationId, LAST] }));
      checkSaved(own, all);
      void this.#rows.put([organizationId, id], row);
      void this.#contents.put([organizationId, id], sealedContent);
      void this.#owned.put([userId, organizationId, id], true);
    });
  }

  async list(organizationId: string): Promise<SavedRow[]> {
    return this.#of(organizationId)
      .filter((row) => this.#lasts(row))
      .sort((a, b) => a.createdAt - b.createdAt);
  }

  async get(organizationId: string, id: string): Promise<{ row: SavedRow; sealedContent: string } | null> {
    const row = this.#rows.get([organizationId, id]);
    const sealedContent = this.#contents.get([organizationId, id]);
    return row === undefined || sealedContent === undefined || !this.#lasts(row) ? null : { row, sealedContent };
  }

  change(organizationId: string, id: string, { sealedContent, ...change }: SavedChange): Promise<SavedRow | null> {
    return this.store.transaction(() => {
      const row = this.#rows.get([organizationId, id]);
      if (row === undefined || !this.#lasts(row)) return null;
      const next: SavedRow = { ...row, ...change };
      void this.#rows.put([organizationId, id], next);
      if (sealedContent !== undefined) void this.#contents.put([organizationId, id], sealedContent);
      return next;
    });
  }

  async remove(organizationId: string, id: string): Promise<void> {
    const row = this.#rows.get([organizationId, id]);
    if (row !== undefined) await this.#erase([row]);
  }

  eraseOrganization(organizationId: string): Promise<void> {
    return this.#erase(this.#of(organizationId));
  }

  eraseUser(userId: string): Promise<void> {
    const keys = [...this.#owned.keys({ from: [userId], to: [userId, LAST] })] as [string, string, string][];
    return this.#erase(keys.map(([, organizationId, id]) => ({ organizationId, id, userId })));
  }

  async sweep(isUser: (userId: string) => Promise<boolean>): Promise<void> {
    const users = new Map<string, boolean>();
    const over: SavedRow[] = [];
    for (const row of [...this.#rows.range()].map(({ value }) => value)) {
      if (!users.has(row.userId)) users.set(row.userId, await isUser(row.userId));
      if (!this.#lasts(row) || users.get(row.userId) === false) over.push(row);
    }
    await this.#erase(over);
  }

  #of(organizationId: string): SavedRow[] {
    return [...this.#rows.range({ from: [organizationId], to: [organizationId, LAST] })].map(({ value }) => value);
  }

  #lasts({ expiresAt }: SavedRow): boolean {
    return expiresAt === null || expiresAt > this.now();
  }

  async #erase(rows: readonly Pick<SavedRow, 'organizationId' | 'id' | 'userId'>[]): Promise<void> {
    for (let at = 0; at < rows.length; at += ERASED_AT_ONCE) {
      await this.store.transaction(() => {
        for (const { organizationId, id, userId } of rows.slice(at, at + ERASED_AT_ONCE)) {
          void this.#rows.remove([organizationId, id]);
          void this.#contents.remove([organizationId, id]);
          void this.#owned.remove([userId, organizationId, id]);
        }
      });
    }
  }
}

function count(keys: Iterable<unknown>): number {
  let many = 0;
  for (const _ of keys) many++;
  return many;
}
