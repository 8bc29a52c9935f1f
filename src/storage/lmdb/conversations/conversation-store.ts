// Implements ConversationStore on the tables of a Store:
//
//   conversations         id                        the head
//   conversation-items    [id, position]            one item
//   conversation-images   [id, position, image]     bytes
//   conversation-item-ids [id, item key, position]  nothing
//   conversation-times    ['used', seconds, id]     nothing: time of last use, when the retention starts
//                         ['erase', 0, id]          nothing: a deleted conversation whose items are not all erased yet
//   conversations-by-organization  [organization, id]  nothing
//   conversation-counts   organization              number of conversations; absent until one is added by this release
//
// An item's position is never reused. A deleted conversation loses its head first, so that it can no longer be found;
// its items are then erased in short transactions. If a crash interrupts them, the sweep continues.

import { isConversationId } from '../../../shared/ids.js';
import { appended, checkConversationCount, checkConversationSize } from '../../conversation-store.js';
import type {
  AppendOptions,
  ConversationHead,
  ConversationItem,
  ConversationSettings,
  ConversationStore,
  NewConversation,
} from '../../conversation-store.js';
import { OPEN_GATE } from '../../erase-gate.js';
import type { EraseGate } from '../../erase-gate.js';
import { itemKey, itemRows } from '../../response-parts.js';
import type { ItemRow } from '../../response-parts.js';
import { itemSize } from '../../response-size.js';
import type { ItemPage, ItemPageQuery, StoredItem } from '../../response-store.js';
import type { Key, Store, Table } from '../../store.js';

const DAY_S = 86_400;
const ERASED_AT_ONCE = 500;
// Sorts after every number and every string that occurs in keys.
const AFTER_ALL = '\u{10ffff}';

interface Head extends Omit<ConversationHead, 'id'> {
  usedAt: number; // time of last use, in seconds since 1970
  next: number; // position at which the next item is stored
}

interface Row extends ItemRow {
  output?: true;
}

export interface ConversationStoreOptions {
  /** Returns the time in seconds since 1970. Tests replace this clock. */
  now?: () => number;
  gate?: EraseGate;
}

export class LmdbConversationStore implements ConversationStore {
  readonly #heads: Table<Head>;
  readonly #items: Table<Row>;
  readonly #images: Table<Uint8Array>;
  readonly #ids: Table<[]>;
  readonly #times: Table<[]>;
  readonly #owned: Table<[]>;
  readonly #counts: Table<number>;
  readonly #retentionS: number;
  readonly #max: number;
  readonly #now: () => number;
  readonly #gate: EraseGate;

  constructor(
    private readonly store: Store,
    settings: ConversationSettings,
    { now = () => Date.now() / 1000, gate = OPEN_GATE }: ConversationStoreOptions = {},
  ) {
    this.#heads = store.table('conversations');
    this.#items = store.table('conversation-items');
    this.#images = store.table('conversation-images');
    this.#ids = store.table('conversation-item-ids');
    this.#times = store.table('conversation-times');
    this.#owned = store.table('conversations-by-organization');
    this.#counts = store.table('conversation-counts');
    this.#max = settings.max_conversations ?? Infinity;
    this.#retentionS = settings.retention_days * DAY_S;
    this.#now = now;
    this.#gate = gate;
  }

  async create({ id, ...rest }: NewConversation, items: readonly ConversationItem[]): Promise<void> {
    const empty: Head = { ...rest, usedAt: Math.floor(this.#now()), next: 0, count: 0, size: 0 };
    const size = checkConversationSize(empty, items);
    await this.store.transaction(() => {
      const count = this.#count(rest.organizationId);
      checkConversationCount(count, this.#max);
      void this.#counts.put(rest.organizationId, count + 1);
      void this.#owned.put([rest.organizationId, id], []);
      void this.#times.put(['used', empty.usedAt, id], []);
      void this.#heads.put(id, this.#added(id, empty, items, size));
    });
  }

  async head(organizationId: string, id: string): Promise<ConversationHead | null> {
    this.store.refresh();
    const head = this.#readable(organizationId, id);
    return head === null ? null : headOf(id, head);
  }

  async list(organizationId: string, limit: number, before: string | null): Promise<ConversationHead[]> {
    if (before !== null && !isConversationId(before)) return [];
    this.store.refresh();
    const { from, to } = below(organizationId);
    const start = before === null ? to : [organizationId, before];
    const found: ConversationHead[] = [];
    for (const key of this.#owned.keys({ from: start, to: from, reverse: true })) {
      const id = (key as [string, string])[1];
      const head = id === before ? null : this.#readable(organizationId, id);
      if (head !== null && found.push(headOf(id, head)) === limit) break;
    }
    return found;
  }

  setMetadata(
    organizationId: string,
    id: string,
    metadata: Readonly<Record<string, string>>,
  ): Promise<ConversationHead | null> {
    return this.store.transaction(() => {
      const head = this.#readable(organizationId, id);
      if (head === null) return null;
      const changed = { ...head, metadata };
      void this.#heads.put(id, changed);
      return headOf(id, changed);
    });
  }

  append(
    organizationId: string,
    id: string,
    all: readonly ConversationItem[],
    options: AppendOptions = {},
  ): Promise<boolean> {
    return this.store.transaction(() => {
      const head = this.#readable(organizationId, id);
      if (head === null) return false;
      if (options.unless !== undefined && this.#position(id, options.unless) !== null) return true;
      const items = appended(head.count, all, options);
      const size = checkConversationSize(head, items);
      void this.#heads.put(id, this.#used(id, this.#added(id, head, items, size)));
      return true;
    });
  }

  async items(organizationId: string, id: string): Promise<readonly ConversationItem[] | null> {
    this.store.refresh();
    if (this.#readable(organizationId, id) === null) return null;
    return [...this.#items.range(below(id))].map(({ key, value }) => this.#item(id, positionOf(key), value, true));
  }

  async page(
    organizationId: string,
    id: string,
    { newestFirst, after, limit, images }: ItemPageQuery,
  ): Promise<ItemPage | 'no conversation' | 'no item'> {
    this.store.refresh();
    if (this.#readable(organizationId, id) === null) return 'no conversation';
    const start = after === null ? null : this.#position(id, after);
    if (after !== null && start === null) return 'no item';
    const { from, to } = below(id);
    const range = newestFirst
      ? { from: start === null ? to : [id, start - 1], to: [id], reverse: true }
      : { from: start === null ? from : [id, start + 1], to };
    const items: StoredItem[] = [];
    for (const { key, value } of this.#items.range(range)) {
      if (value.repeats === true) continue;
      if (items.length === limit) return { items, more: true };
      items.push(this.#item(id, positionOf(key), value, images));
    }
    return { items, more: false };
  }

  async item(organizationId: string, id: string, itemId: string): Promise<StoredItem | null> {
    this.store.refresh();
    const position = this.#readable(organizationId, id) === null ? null : this.#position(id, itemId);
    const row = position === null ? undefined : this.#items.get([id, position]);
    return position === null || row === undefined ? null : this.#item(id, position, row, true);
  }

  removeItem(organizationId: string, id: string, itemId: string): Promise<boolean> {
    return this.store.transaction(() => {
      const head = this.#readable(organizationId, id);
      const keys = head === null ? [] : [...this.#ids.keys(below(id, itemKey(itemId)))];
      if (head === null || keys.length === 0) return false;
      let size = head.size;
      for (const key of keys) {
        const position = (key as [string, string, number])[2];
        size -= itemSize(this.#items.get([id, position])?.item ?? {});
        this.#remove(id, position, key);
      }
      void this.#heads.put(id, this.#used(id, { ...head, size, count: head.count - keys.length }));
      return true;
    });
  }

  async delete(organizationId: string, id: string): Promise<boolean> {
    const isFound = await this.store.transaction(() => {
      const head = this.#readable(organizationId, id);
      if (head !== null) this.#forget(id, head);
      return head !== null;
    });
    if (isFound) await this.#eraseItems(id);
    return isFound;
  }

  async eraseOrganization(organizationId: string): Promise<void> {
    const ids = [...this.#owned.keys(below(organizationId))].map((key) => (key as [string, string])[1]);
    for (const id of ids) {
      await this.store.transaction(() => {
        const head = this.#heads.get(id);
        if (head !== undefined) this.#forget(id, head);
      });
      await this.#eraseItems(id);
    }
  }

  async sweep(): Promise<number> {
    const interrupted = [...this.#times.keys(below('erase'))].map((key) => (key as [string, number, string])[2]);
    for (const id of interrupted) await this.#eraseItems(id);
    let erased = 0;
    const until = this.#now() - this.#retentionS;
    for (const key of [...this.#times.keys({ from: ['used'], to: ['used', until, AFTER_ALL] })]) {
      if (!this.#gate.allows()) break;
      const id = (key as [string, number, string])[2];
      const isOver = await this.store.transaction(() => {
        const head = this.#heads.get(id);
        if (head === undefined || !this.#isExpired(head)) return false;
        this.#forget(id, head);
        return true;
      });
      if (!isOver) continue;
      await this.#eraseItems(id);
      erased++;
    }
    return erased;
  }

  #readable(organizationId: string, id: string): Head | null {
    const head = isConversationId(id) ? this.#heads.get(id) : undefined;
    return head === undefined || head.organizationId !== organizationId || this.#isExpired(head) ? null : head;
  }

  /** Number of an organization's conversations, including expired ones that have not been erased yet. */
  #count(organizationId: string): number {
    return this.#counts.get(organizationId) ?? [...this.#owned.keys(below(organizationId))].length;
  }

  #isExpired({ usedAt }: Head): boolean {
    return usedAt + this.#retentionS <= this.#now();
  }

  /** Stores items and returns the updated head. Must be called within a transaction. */
  #added(id: string, head: Head, items: readonly ConversationItem[], size: number): Head {
    for (const [index, row] of itemRows(items).entries()) {
      const position = head.next + index;
      const { images = [], output = false } = items[index] as ConversationItem;
      const repeats = this.#position(id, row.id) !== null;
      const { repeats: _repeats, ...own } = row;
      void this.#items.put([id, position], {
        ...own,
        ...(repeats ? { repeats } : {}),
        ...(output ? { output } : {}),
      });
      void this.#ids.put([id, itemKey(row.id), position], []);
      for (const [image, bytes] of images.entries()) void this.#images.put([id, position, image], bytes);
    }
    return { ...head, next: head.next + items.length, count: head.count + items.length, size: head.size + size };
  }

  /** Renews the retention and returns the updated head. Must be called within a transaction. */
  #used(id: string, head: Head): Head {
    const usedAt = Math.floor(this.#now());
    void this.#times.remove(['used', head.usedAt, id]);
    void this.#times.put(['used', usedAt, id], []);
    return { ...head, usedAt };
  }

  /** Returns the position of the first item with this ID, or null if there is none. */
  #position(id: string, itemId: string): number | null {
    for (const key of this.#ids.keys({ ...below(id, itemKey(itemId)), limit: 1 }))
      return (key as [string, string, number])[2];
    return null;
  }

  #item(
    id: string,
    position: number,
    { id: itemId, item, images, repeats, output }: Row,
    loads: boolean,
  ): ConversationItem {
    return {
      id: itemId,
      item,
      ...(images === 0 || !loads
        ? {}
        : {
            images: Array.from({ length: images }, (_, at) => this.#images.get([id, position, at]) ?? new Uint8Array()),
          }),
      ...(repeats === true ? { repeats } : {}),
      ...(output === true ? { output } : {}),
    };
  }

  /**
   * Makes the conversation unknown; eraseItems() erases the remaining rows later. Must be called within a
   * transaction.
   */
  #forget(id: string, { organizationId, usedAt }: Head): void {
    const left = this.#count(organizationId) - 1;
    if (left > 0) void this.#counts.put(organizationId, left);
    else void this.#counts.remove(organizationId);
    void this.#heads.remove(id);
    void this.#owned.remove([organizationId, id]);
    void this.#times.remove(['used', usedAt, id]);
    void this.#times.put(['erase', 0, id], []);
  }

  async #eraseItems(id: string): Promise<void> {
    const first = { ...below(id), limit: ERASED_AT_ONCE };
    for (const table of [this.#images, this.#ids, this.#items] as Table<unknown>[]) {
      for (let keys = [...table.keys(first)]; keys.length > 0; keys = [...table.keys(first)])
        await this.store.transaction(() => {
          for (const key of keys) void table.remove(key);
        });
    }
    await this.#times.remove(['erase', 0, id]);
  }

  #remove(id: string, position: number, idKey: Key): void {
    const { images = 0 } = this.#items.get([id, position]) ?? {};
    for (let at = 0; at < images; at++) void this.#images.remove([id, position, at]);
    void this.#items.remove([id, position]);
    void this.#ids.remove(idKey);
  }
}

const positionOf = (key: Key): number => (key as [string, number])[1];

const below = (...start: string[]): { from: Key; to: Key } => ({ from: start, to: [...start, AFTER_ALL] });

const headOf = (id: string, { organizationId, createdAt, metadata, count, size }: Head): ConversationHead => ({
  id,
  organizationId,
  createdAt,
  metadata,
  count,
  size,
});
