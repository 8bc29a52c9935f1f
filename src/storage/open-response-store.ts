// ResponseStore over the tables of a Store. A response is written in one transaction; where it has large or
// many parts (images, hundreds of items), those are written before it, a little at a time, and the head that
// makes them visible comes last. Owns the response tables; event-loop thread only.

import { apiError } from '../errors.js';
import { ResponseErasure } from './response-erasure.js';
import { isUnfinished } from './response-store.js';
import type { ResponseRecord, ResponseStore, StoredEvent, StoredItem } from './response-store.js';
import { ResponseTables, isResponseId, itemKey, itemParts, itemRows, outputRow } from './response-tables.js';
import type { Head, ItemParts, ItemRow, Place } from './response-tables.js';
import { StorageError } from './store.js';
import type { Store } from './store.js';

/** Responses of one chain. Reading one this long takes some tens of milliseconds. */
export const MAX_CHAIN = 10_000;

const DAY_S = 86_400;
const SWEEP_MS = 3_600_000;
/** How long the event log of a background response is kept after its end. */
const LOG_S = 3_600;
// More than this goes ahead of the transaction.
const INLINE_ITEMS = 256;
const INLINE_IMAGE_BYTES = 1024 ** 2;
// So much of it at a time.
const STAGE_ITEMS = 1_024;
const STAGE_IMAGE_BYTES = 8 * 1024 ** 2;
// Responses that carry one item id, looked through for a readable one.
const SAME_ITEM_MAX = 256;

const RESTARTED = 'The server was restarted before this response was finished.';

export interface ResponseStoreOptions {
  /** Seconds since 1970; tests turn the clock. */
  now?: () => number;
  /** A sweep that failed; the next one tries again. */
  onError?: (error: unknown) => void;
}

/** Sweeps at once and every hour. */
export function openResponseStore(store: Store, settings: { retention_days: number }, options: ResponseStoreOptions = {}): ResponseStore {
  return new TableResponseStore(store, settings.retention_days * DAY_S, options);
}

class TableResponseStore implements ResponseStore {
  readonly #tables: ResponseTables;
  readonly #erasure: ResponseErasure;
  readonly #now: () => number;
  readonly #timer: NodeJS.Timeout;
  #background: Promise<unknown>;                 // the sweep that runs by itself
  readonly #staging = new Map<string, Promise<void>>();

  constructor(store: Store, retentionS: number, { now = () => Date.now() / 1000, onError = () => undefined }: ResponseStoreOptions) {
    this.#tables = new ResponseTables(store);
    this.#now = now;
    const erasure = new ResponseErasure(this.#tables, now, retentionS);
    this.#erasure = erasure;
    const sweep = (): Promise<unknown> => erasure.sweep().catch(onError);
    const staged = erasure.staged();
    this.#background = (async () => {
      for (const id of staged) await erasure.unstage(id);
    })().catch(onError).then(sweep);
    this.#timer = setInterval(() => { this.#background = this.#background.then(sweep); }, SWEEP_MS);
    this.#timer.unref();
  }

  async save(record: ResponseRecord): Promise<void> {
    const { id } = record;
    const before = this.#staging.get(id);
    if (before !== undefined) await before.catch(() => undefined);   // what is saved later is to stay
    const isNew = this.#tables.heads.get(id) === undefined;
    const parts = itemParts(record, isNew ? ['input', 'output'] : ['output']);
    if (!isNew || (parts.index.length <= INLINE_ITEMS && parts.imageBytes <= INLINE_IMAGE_BYTES)) {
      await this.#tables.store.transaction(() => this.#write(record, parts));
      return;
    }
    const staged = this.#saveStaged(record, parts);
    this.#staging.set(id, staged);
    try {
      await staged;
    } finally {
      this.#staging.delete(id);
    }
  }

  get(organizationId: string, id: string): ResponseRecord | null {
    const head = this.#readable(organizationId, id);
    return head === null ? null : this.#record(id, head);
  }

  chain(organizationId: string, id: string): readonly ResponseRecord[] | null {
    const last = this.#readable(organizationId, id);
    if (last === null) return null;
    if (last.depth > MAX_CHAIN) {
      throw apiError('response_not_usable', `The chain of this response has more than ${MAX_CHAIN} responses. Start a new one with what is needed of it.`, 'previous_response_id');
    }
    const records: ResponseRecord[] = [];
    for (let at: string | null = id, head: Head | undefined = last; at !== null;) {
      if (head === undefined || head.organizationId !== organizationId) return null;
      records.push(this.#record(at, head));
      at = head.previousId;
      if (at !== null) head = this.#tables.heads.get(at);
    }
    return records.reverse();
  }

  hold(id: string): () => void {
    return this.#erasure.hold(id);
  }

  item(organizationId: string, itemId: string): StoredItem | null {
    const entries = this.#tables.items.range({
      from: [organizationId, itemKey(itemId), Number.MAX_SAFE_INTEGER], to: [organizationId, itemKey(itemId)], reverse: true, limit: SAME_ITEM_MAX,
    });
    for (const { key, value: [place, index] } of entries) {
      const id = key[3] as string;
      if (this.#readable(organizationId, id) === null) continue;
      const row = this.#tables.rows(id, place)[index];
      if (row?.id === itemId) return this.#item(id, place, index, row);
    }
    return null;
  }

  async delete(organizationId: string, id: string): Promise<boolean> {
    const { store } = this.#tables;
    const dead = await store.transaction(() => {
      const head = this.#readable(organizationId, id);
      if (head !== null) this.#erasure.kill(id, head);
      return head;
    });
    if (dead === null) return false;
    await this.#erasure.erase([id]);
    if (dead.background) await this.#erasure.eraseLog(id, 0);
    return true;
  }

  async appendEvents(id: string, events: readonly StoredEvent[]): Promise<void> {
    const [first] = events;
    if (first === undefined) return;
    await this.#tables.store.transaction(() => {
      const head = this.#tables.heads.get(id);
      if (head === undefined || head.dead) return;
      void this.#tables.events.put([id, first.sequence], events.map(({ sequence, type, data }) => [sequence, type, data]));
    });
  }

  events(id: string, after: number, atLeast = Infinity): readonly StoredEvent[] | null {
    const head = isResponseId(id) ? this.#tables.heads.get(id) : undefined;
    if (head === undefined || head.dead || !head.background || (head.logUntil !== null && head.logUntil <= this.#now())) return null;
    const { to } = ResponseTables.below(id);
    // The row that has the first one wanted begins at or before it.
    const [start = [id]] = this.#tables.events.keys({ from: [id, after + 1], to: [id], reverse: true, limit: 1 });
    const found: StoredEvent[] = [];
    for (const { value } of this.#tables.events.range({ from: start, to })) {
      for (const [sequence, type, data] of value) if (sequence > after) found.push({ sequence, type, data });
      if (found.length >= atLeast) break;
    }
    return found;
  }

  async failUnfinished(): Promise<number> {
    let count = 0;
    for (const key of [...this.#tables.times.keys({ from: ['open'], to: ['open', 1] })]) {
      const id = (key as [string, number, string])[2];
      await this.#tables.store.transaction(() => {
        const { heads, resources, times } = this.#tables;
        const head = heads.get(id);
        const resource = resources.get(id);
        void times.remove(key);
        if (head === undefined || head.dead || resource === undefined) return;
        void resources.put(id, { ...resource, status: 'failed', error: { code: 'server_error', message: RESTARTED } });
        void heads.put(id, { ...head, status: 'failed', logUntil: this.#noteLogEnd(id) });
        count++;
      });
    }
    return count;
  }

  sweep(): Promise<number> {
    const done = this.#background.then(() => this.#erasure.sweep());
    this.#background = done.catch(() => undefined);
    return done;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#erasure.close();
    await this.#background;
  }

  async #saveStaged(record: ResponseRecord, parts: ItemParts): Promise<void> {
    try {
      await this.#stage(record.id, parts);
      await this.#tables.store.transaction(() => {
        void this.#tables.times.remove(['staged', 0, record.id]);
        this.#write(record, null);
      });
    } catch (error) {
      await this.#erasure.unstage(record.id).catch(() => undefined);   // the next start tries again
      throw error;
    }
  }

  /** Within a transaction. `parts`: null if they are there already. */
  #write(record: ResponseRecord, parts: ItemParts | null): void {
    const { heads, resources, inputs, outputs, images, items, times } = this.#tables;
    const { id, organizationId, model, createdAt, status, background } = record;
    const known = heads.get(id);
    if (known !== undefined && (known.dead || known.organizationId !== organizationId)) return;
    if (known === undefined) {
      if (background && status !== 'queued') return;   // it began as queued, so it was deleted meanwhile
      void inputs.put(id, itemRows(record.input));
      void times.put(['created', createdAt, id], []);
    }
    const previousId = known === undefined ? record.previousId : known.previousId;
    const ended = background && !isUnfinished(status);
    if (background && !ended) void times.put(['open', 0, id], []);
    else if (background) void times.remove(['open', 0, id]);
    if (known !== undefined && known.logUntil !== null) void times.remove(['log', known.logUntil, id]);
    void heads.put(id, {
      organizationId, model, createdAt: known?.createdAt ?? createdAt, status, background, previousId,
      depth: known?.depth ?? this.#join(organizationId, previousId), children: known?.children ?? 0, dead: false,
      logUntil: ended ? this.#noteLogEnd(id) : null,
    });
    void resources.put(id, { ...record.resource, output: null });
    void outputs.put(id, outputRow(record));
    for (const { key, value } of parts?.index ?? []) void items.put(key, value);
    for (const { key, value } of parts?.images ?? []) void images.put(key, value);
  }

  /** Counts a new continuation of `previousId`; the depth of its chain. */
  #join(organizationId: string, previousId: string | null): number {
    const parent = previousId === null ? undefined : this.#tables.heads.get(previousId);
    if (parent === undefined || parent.organizationId !== organizationId) return 1;
    void this.#tables.heads.put(previousId as string, { ...parent, children: parent.children + 1 });
    return parent.depth + 1;
  }

  #noteLogEnd(id: string): number {
    const until = Math.ceil(this.#now()) + LOG_S;
    void this.#tables.times.put(['log', until, id], []);
    return until;
  }

  async #stage(id: string, { index, images }: ItemParts): Promise<void> {
    const { times, items, images: table } = this.#tables;
    await times.put(['staged', 0, id], index.map(({ key }) => key));
    for (let at = 0; at < index.length; at += STAGE_ITEMS) {
      await Promise.all(index.slice(at, at + STAGE_ITEMS).map(({ key, value }) => items.put(key, value)));
    }
    let bytes = 0;
    let written: Promise<void>[] = [];
    for (const { key, value } of images) {
      written.push(table.put(key, value));
      bytes += value.length;
      if (bytes < STAGE_IMAGE_BYTES) continue;
      await Promise.all(written);
      bytes = 0;
      written = [];
    }
    await Promise.all(written);
  }

  #readable(organizationId: string, id: string): Head | null {
    if (!isResponseId(id)) return null;
    const head = this.#tables.heads.get(id);
    if (head === undefined || head.organizationId !== organizationId || head.dead || this.#erasure.isExpired(head)) return null;
    return head;
  }

  // Getters are the object's own, so that a copy of it has their values.
  #record(id: string, head: Head): ResponseRecord {
    const { organizationId, model, createdAt, status, background, previousId } = head;
    const input = once(() => this.#items(id, 'input', this.#tables.inputs.get(id)));
    const output = once(() => this.#items(id, 'output', this.#tables.outputs.get(id)?.items));
    const resource = once(() => {
      const row = this.#tables.resources.get(id);
      const out = this.#tables.outputs.get(id);
      if (row === undefined || out === undefined) throw erased(id);
      row['output'] = out.shown ?? out.items.map(({ item }) => item);
      return row;
    });
    return {
      id, organizationId, model, createdAt, status, background, previousId,
      get resource() { return resource(); },
      get input() { return input(); },
      get output() { return output(); },
    };
  }

  #items(id: string, place: Place, rows: readonly ItemRow[] | undefined): StoredItem[] {
    if (rows === undefined) throw erased(id);
    return rows.map((row, index) => this.#item(id, place, index, row));
  }

  #item(responseId: string, place: Place, index: number, { id, item, images: count }: ItemRow): StoredItem {
    if (count === 0) return { id, item };
    const images = once(() => Array.from({ length: count }, (_, image) => {
      const bytes = this.#tables.images.get([responseId, place, index, image]);
      if (bytes === undefined) throw erased(responseId);
      return bytes;
    }));
    return { id, item, get images() { return images(); } };
  }
}

const erased = (id: string): StorageError => new StorageError(`The stored response ${id} was erased while it was being read.`);

function once<T>(make: () => T): () => T {
  let made: { value: T } | null = null;
  return () => (made ??= { value: make() }).value;
}
