// Implements ReplayStore on four tables:
//
//   replays              [organization, key]                    → the item
//   replays-by-time      [organization, expires at, key]        → size in bytes
//   replays-by-response  [organization, response, key]          → nothing
//   replay-sizes         organization                           → total size in bytes

import { ShortTransactions } from '../short-transactions.js';
import type { FoundReplay, ReplayRow, ReplayStore } from '../../../generation/replay/replay-store.js';
import type { Key, Store, Table } from '../../store.js';

type Item = Omit<ReplayRow, 'organizationId' | 'key'>;

/** Estimated size in bytes of the keys of one item. */
const KEY_BYTES = 256;
/** Maximum number of keys that one step of an erasure reads. */
const READ = 512;
// Sorts after every number and every string that occurs in keys.
const AFTER_ALL = '\u{10ffff}';

export class LmdbReplayStore implements ReplayStore {
  readonly #items: Table<Item>;
  readonly #times: Table<number>;
  readonly #responses: Table<[]>;
  readonly #sizes: Table<number>;
  readonly #transactions: ShortTransactions;

  /** `maxBytes`: maximum total size of an organization's items. */
  constructor(
    private readonly store: Store,
    private readonly maxBytes: number,
    private readonly now: () => number = () => Date.now() / 1_000,
  ) {
    this.#items = store.table('replays');
    this.#times = store.table('replays-by-time');
    this.#responses = store.table('replays-by-response');
    this.#sizes = store.table('replay-sizes');
    this.#transactions = new ShortTransactions(store);
  }

  save(rows: readonly ReplayRow[]): Promise<void> {
    return this.store.transaction(() => {
      const organizations = new Set<string>();
      for (const { organizationId, key, ...item } of rows) {
        organizations.add(organizationId);
        this.#remove(organizationId, key);
        void this.#items.put([organizationId, key], item);
        void this.#times.put([organizationId, item.expiresAt, key], sizeOf(item));
        if (item.responseId !== null) void this.#responses.put([organizationId, item.responseId, key], []);
        this.#resize(organizationId, sizeOf(item));
      }
      for (const organizationId of organizations) this.#shrink(organizationId);
    });
  }

  async find(organizationId: string, keys: readonly string[]): Promise<readonly FoundReplay[]> {
    const found: FoundReplay[] = [];
    const now = this.now();
    for (const key of keys) {
      const item = this.#items.get([organizationId, key]);
      if (item !== undefined && item.expiresAt > now) found.push({ ...item, key });
    }
    return found;
  }

  async eraseResponse(organizationId: string, responseId: string): Promise<void> {
    const keys = [...this.#responses.keys(below(organizationId, responseId))];
    await this.#transactions.forEach(keys, (key) => this.#remove(organizationId, (key as string[])[2] as string));
  }

  async eraseOrganization(organizationId: string): Promise<void> {
    for (;;) {
      const keys = [...this.#items.keys({ ...below(organizationId), limit: READ })];
      if (keys.length === 0) break;
      const isWhole = await this.#transactions.forEach(keys, (key) =>
        this.#remove(organizationId, (key as string[])[1] as string),
      );
      if (!isWhole) return;
    }
    await this.#sizes.remove(organizationId);
  }

  async sweep(): Promise<number> {
    let erased = 0;
    const now = this.now();
    for (const organization of [...this.#sizes.keys()]) {
      const organizationId = organization as string;
      for (;;) {
        const due = [...this.#times.keys({ from: [organizationId], to: [organizationId, now], limit: READ })];
        if (due.length === 0) break;
        const isWhole = await this.#transactions.forEach(due, (key) => {
          this.#remove(organizationId, (key as [string, number, string])[2]);
          erased++;
        });
        if (!isWhole) return erased;
      }
    }
    return erased;
  }

  close(): void {
    this.#transactions.close();
  }

  /**
   * Erases an organization's items that expire first, until the remaining ones fit the limit. Must be called within a
   * transaction.
   */
  #shrink(organizationId: string): void {
    const size = this.#sizes.get(organizationId) ?? 0;
    if (size <= this.maxBytes) return;
    const gone: string[] = [];
    let left = size;
    for (const { key, value } of this.#times.range(below(organizationId))) {
      if (left <= this.maxBytes) break;
      gone.push((key as [string, number, string])[2]);
      left -= value;
    }
    for (const key of gone) this.#remove(organizationId, key);
  }

  /** Removes an item. Must be called within a transaction. */
  #remove(organizationId: string, key: string): void {
    const item = this.#items.get([organizationId, key]);
    if (item === undefined) return;
    void this.#items.remove([organizationId, key]);
    void this.#times.remove([organizationId, item.expiresAt, key]);
    if (item.responseId !== null) void this.#responses.remove([organizationId, item.responseId, key]);
    this.#resize(organizationId, -sizeOf(item));
  }

  #resize(organizationId: string, by: number): void {
    const size = (this.#sizes.get(organizationId) ?? 0) + by;
    if (size > 0) void this.#sizes.put(organizationId, size);
    else void this.#sizes.remove(organizationId);
  }
}

const sizeOf = ({ tokens }: Pick<Item, 'tokens'>): number => tokens.length + KEY_BYTES;

const below = (...start: string[]): { from: Key; to: Key } => ({ from: start, to: [...start, AFTER_ALL] });
