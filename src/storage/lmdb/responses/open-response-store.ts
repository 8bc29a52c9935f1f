// Implements ResponseStore on the tables of a Store. Each method reads everything synchronously, so it sees a single
// state of the database. A response is written in one transaction. If its parts are large or numerous (images, hundreds
// of items), they are written in small steps beforehand, and the head, which makes them visible, is written last. Owns
// the response tables; event-loop thread only.

import { performance } from 'node:perf_hooks';
import { apiError } from '../../../shared/errors.js';
import { isResponseId } from '../../../shared/ids.js';
import type { HeldResponses } from '../../held-responses.js';
import { ItemReader } from './item-reader.js';
import { ResponseErasure } from './response-erasure.js';
import { listing } from './response-listing.js';
import type { Link } from './response-listing.js';
import { ResponseRows, erased } from './response-rows.js';
import { LOG_S, MAX_CHAIN, MAX_CHAIN_SIZE, chainTooDeep, chainTooLong, itemSize } from '../../response-size.js';
import { isUnfinished } from '../../response-store.js';
import type {
  ChainedResponse,
  Failed,
  HeldChain,
  ItemPage,
  ItemPageQuery,
  LogFinalizer,
  ResponseHead,
  ResponsePage,
  ResponseRecord,
  ResponseStore,
  StoredItem,
  StoredResponse,
} from '../../response-store.js';
import type { StoredEvent } from '../../../shared/stored-event.js';
import { itemRows, outputRow, pages, sizeOf, previewOf } from '../../response-parts.js';
import { ResponseTables, itemParts, listKey } from './response-tables.js';
import type { Head, ItemParts } from './response-tables.js';
import type { FinishedUsage } from '../../../shared/usage-sink.js';
import { OPEN_GATE } from '../../erase-gate.js';
import type { EraseGate } from '../../erase-gate.js';
import { undoneBy } from '../../store.js';
import type { Store } from '../../store.js';

const DAY_S = 86_400;
const SWEEP_MS = 3_600_000;
// If there are more items than this, they are written before the transaction.
const INLINE_ITEMS = 256;
const INLINE_IMAGE_BYTES = 1024 ** 2;
// Number of items written per step.
const STAGE_ITEMS = 1_024;
const STAGE_IMAGE_BYTES = 8 * 1024 ** 2;
/** Minimum interval between logged write failures, because every save fails while the disk is full. */
const FAILURE_LOG_MS = 60_000;

export interface ResponseStoreOptions {
  /** Seconds since the Unix epoch; tests replace the clock. */
  now?: () => number;
  /** Whether sweeps may erase. */
  gate?: EraseGate;
  /** Called when a sweep has failed. The next sweep retries. */
  onError?: (error: unknown) => void;
  /** Called at most once per minute when a write has failed and the client received an error. */
  onWriteFailure?: (error: unknown) => void;
  /** Shared with the other threads that have the store open. */
  shared?: SharedResponses;
}

export interface SharedResponses {
  /** The primary instance sweeps, and cleans up saves that were interrupted when the process ended. */
  primary: boolean;
  held: HeldResponses;
}

/** Opens the store. It sweeps now and every hour, but only on one of the threads that share the store. */
export function openResponseStore(
  store: Store,
  settings: { retention_days: number },
  options: ResponseStoreOptions = {},
): ResponseStore {
  return new TableResponseStore(store, settings.retention_days * DAY_S, options);
}

class TableResponseStore implements ResponseStore {
  readonly #tables: ResponseTables;
  readonly #rows: ResponseRows;
  readonly #erasure: ResponseErasure;
  readonly #now: () => number;
  readonly #timer: NodeJS.Timeout | null;
  readonly #stopListening: () => void = () => undefined;
  #background: Promise<unknown>; // the periodic sweep
  readonly #staging = new Map<string, Promise<void>>();
  readonly #shared: boolean;
  readonly #onWriteFailure: (error: unknown) => void;
  #failureLoggedAt = -Infinity;

  readonly #retentionS: number;

  constructor(
    store: Store,
    retentionS: number,
    {
      now = () => Date.now() / 1000,
      onError = () => undefined,
      onWriteFailure = () => undefined,
      gate = OPEN_GATE,
      shared,
    }: ResponseStoreOptions,
  ) {
    this.#retentionS = retentionS;
    this.#tables = new ResponseTables(store);
    this.#rows = new ResponseRows(this.#tables);
    this.#onWriteFailure = onWriteFailure;
    this.#now = now;
    const erasure = new ResponseErasure(this.#tables, now, retentionS, shared?.held, gate);
    this.#erasure = erasure;
    this.#shared = shared !== undefined;
    if (shared?.primary === false) {
      this.#background = Promise.resolve();
      this.#timer = null;
      return;
    }
    const sweep = (): Promise<unknown> => erasure.sweep().catch(onError);
    const staged = erasure.staged();
    this.#background = (async () => {
      for (const id of staged) await erasure.unstage(id);
    })()
      .catch(onError)
      .then(sweep);
    const sweepNext = (): void => {
      this.#background = this.#background.then(sweep);
    };
    this.#timer = setInterval(sweepNext, SWEEP_MS);
    this.#stopListening = gate.onAllowed(sweepNext);
    this.#timer.unref();
  }

  save(record: ResponseRecord): Promise<void> {
    return this.#written(() => this.#save(record));
  }

  async #save(record: ResponseRecord): Promise<void> {
    const { id } = record;
    const before = this.#staging.get(id);
    if (before !== undefined) await before.catch(() => undefined); // anything saved after that must be kept
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

  async head(organizationId: string, id: string): Promise<ResponseHead | null> {
    this.#renew();
    const head = this.#readable(organizationId, id);
    return head === null ? null : headOf(id, head);
  }

  async size(organizationId: string, id: string): Promise<number> {
    this.#renew();
    return this.#readable(organizationId, id)?.chainSize ?? 0;
  }

  async get(organizationId: string, id: string): Promise<StoredResponse | null> {
    this.#renew();
    const head = this.#readable(organizationId, id);
    return head === null ? null : this.#stored(id, head);
  }

  async chain(organizationId: string, id: string): Promise<HeldChain | null> {
    if (!isResponseId(id)) return null;
    // A response is marked dead in one transaction and erased in a later one, which spares held responses. Therefore, a
    // response that is still readable once it is held will be kept.
    const release = this.#erasure.hold(id);
    try {
      this.#renew();
      const responses = this.#chain(organizationId, id);
      if (responses !== null) return { responses, release };
    } catch (error) {
      release();
      throw error;
    }
    release();
    return null;
  }

  #chain(organizationId: string, id: string): ChainedResponse[] | null {
    const last = this.#readable(organizationId, id);
    if (last === null) return null;
    if (last.depth > MAX_CHAIN) throw chainTooDeep();
    if ((last.chainSize ?? 0) > MAX_CHAIN_SIZE) throw chainTooLong();
    const ancestors = [...this.#ancestors(id, last)];
    if (ancestors.at(-1)?.[1].previousId !== null) return null;
    let size = 0;
    return ancestors.reverse().map(([at, head]): ChainedResponse => {
      const input = this.#rows.all(at, 'input');
      const output = this.#rows.all(at, 'output');
      if (last.chainSize === undefined && (size += sizeOf(input) + sizeOf(output)) > MAX_CHAIN_SIZE)
        throw chainTooLong();
      return { ...headOf(at, head), input, output };
    });
  }

  async inputItems(
    organizationId: string,
    id: string,
    { limit, ...order }: ItemPageQuery,
  ): Promise<ItemPage | 'no response' | 'no item'> {
    this.#renew();
    const head = this.#readable(organizationId, id);
    if (head === null) return 'no response';
    const listed = listing(this.#tables, this.#rows, this.#ancestors(id, head), order);
    if (listed === null) return 'no item';
    const items: StoredItem[] = [];
    for (const item of listed) {
      if (items.length === limit) return { items, more: true };
      items.push(item);
    }
    return { items, more: false };
  }

  async items(
    organizationId: string,
    ids: Iterable<string>,
    maxSize: number,
  ): Promise<ReadonlyMap<string, StoredItem>> {
    this.#renew();
    const reader = new ItemReader(
      this.#tables,
      this.#rows,
      organizationId,
      (id) => this.#readable(organizationId, id) !== null,
    );
    const found = new Map<string, StoredItem>();
    let size = 0;
    for (const id of ids) {
      if (found.has(id)) continue;
      const item = reader.read(id);
      if (item === null) continue;
      found.set(id, item);
      if ((size += itemSize(item.item)) > maxSize) break;
    }
    return found;
  }

  async list(organizationId: string, limit: number, after: string | null): Promise<ResponsePage | null> {
    this.#renew();
    const [, made, last] = after === null ? [] : (/^(\d{1,12}(?:\.\d{1,6})?)\.(resp_[0-9a-f]{48})$/.exec(after) ?? []);
    if (after !== null && last === undefined) return null;
    const { to, from } = ResponseTables.below(organizationId);
    // The response after which the page starts may have been deleted; its sort position is enough.
    const begin = last === undefined ? to : [organizationId, Number(made), last];
    const data: ResponsePage['data'][number][] = [];
    let next = '';
    for (const key of this.#tables.byOrganization.keys({ from: begin, to: from, reverse: true })) {
      const [, madeAt, id] = key as [string, number, string];
      if (id === last) continue;
      const head = this.#tables.heads.get(id);
      if (head === undefined) continue;
      if (this.#erasure.isExpired(head)) break; // all older responses have expired too
      if (data.length === limit) return { data, next };
      const { model, status, background, createdAt, preview = null } = head;
      data.push({ id, model, status, background, createdAt, expiresAt: createdAt + this.#retentionS, preview });
      next = `${madeAt}.${id}`;
    }
    return { data, next: null };
  }

  eraseOrganization(organizationId: string): Promise<number> {
    return this.#erasure.eraseOrganization(organizationId);
  }

  delete(organizationId: string, id: string): Promise<boolean> {
    return this.#written(() => this.#delete(organizationId, id));
  }

  async #delete(organizationId: string, id: string): Promise<boolean> {
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

  async appendEvents(id: string, events: readonly StoredEvent[], usage: FinishedUsage | null = null): Promise<void> {
    if (events.length === 0) return;
    await this.#written(() =>
      this.#tables.store.transaction(() => {
        const head = this.#tables.heads.get(id);
        if (head === undefined || head.dead) return;
        this.#append(id, events);
        if (usage !== null && isUnfinished(head.status)) void this.#tables.heads.put(id, { ...head, usage });
      }),
    );
  }

  /** Must be called within a transaction. */
  #append(id: string, events: readonly StoredEvent[]): void {
    const [first] = events;
    if (first !== undefined)
      void this.#tables.events.put(
        [id, first.sequence],
        events.map(({ sequence, type, data }) => [sequence, type, data]),
      );
  }

  #hasLog(id: string): boolean {
    this.#renew();
    const head = isResponseId(id) ? this.#tables.heads.get(id) : undefined;
    return (
      head !== undefined && !head.dead && head.background && (head.logUntil === null || head.logUntil > this.#now())
    );
  }

  async events(id: string, after: number, atLeast = Infinity): Promise<readonly StoredEvent[] | null> {
    return this.#events(id, after, atLeast);
  }

  #events(id: string, after: number, atLeast: number): readonly StoredEvent[] | null {
    if (!this.#hasLog(id)) return null;
    const { to } = ResponseTables.below(id);
    // The row that contains the first requested event starts at or before that event.
    const [start = [id]] = this.#tables.events.keys({ from: [id, after + 1], to: [id], reverse: true, limit: 1 });
    const found: StoredEvent[] = [];
    for (const { value } of this.#tables.events.range({ from: start, to })) {
      for (const [sequence, type, data] of value) if (sequence > after) found.push({ sequence, type, data });
      if (found.length >= atLeast) break;
    }
    return found;
  }

  async lastEvent(id: string): Promise<StoredEvent | null> {
    return this.#lastEvent(id);
  }

  #lastEvent(id: string): StoredEvent | null {
    if (!this.#hasLog(id)) return null;
    const { from, to } = ResponseTables.below(id);
    for (const { value } of this.#tables.events.range({ from: to, to: from, reverse: true, limit: 1 })) {
      const last = value.at(-1);
      if (last !== undefined) return { sequence: last[0], type: last[1], data: last[2] };
    }
    return null;
  }

  async *failUnfinished(
    finalizer: LogFinalizer,
    isRunning: (organizationId: string, id: string) => boolean | Promise<boolean> = () => false,
  ): AsyncIterable<Failed> {
    for (const key of [...this.#tables.times.keys({ from: ['open'], to: ['open', 1] })]) {
      const id = (key as [string, number, string])[2];
      if (await isRunning(this.#tables.heads.get(id)?.organizationId ?? '', id)) continue;
      const failed = this.#failed(id, finalizer);
      const isFailed = await this.#tables.store.transaction(() => {
        void this.#tables.times.remove(key);
        const head = this.#tables.heads.get(id);
        // The response has changed in the meantime.
        if (failed === null || head === undefined || head.dead || !isUnfinished(head.status)) return false;
        return this.#write(failed.record, itemParts(failed.record, ['output']));
      });
      if (isFailed && failed !== null) yield failed;
    }
    await this.#completeLogs(finalizer, isRunning);
  }

  /** Null if the response cannot be marked as failed, because it is dead, has been erased or has already ended. */
  #failed(id: string, finalizer: LogFinalizer): Failed | null {
    this.#renew();
    const head = this.#tables.heads.get(id);
    if (head === undefined || head.dead || this.#tables.resource(id) === undefined || !isUnfinished(head.status))
      return null;
    return finalizer.fail(this.#stored(id, head), this.#events(id, -1, Infinity) ?? [], head.usage ?? null);
  }

  /**
   * Completes the logs of responses that have now failed, and of responses that were saved as ended but whose last
   * events were not written.
   */
  async #completeLogs(
    finalizer: LogFinalizer,
    isRunning: (organizationId: string, id: string) => boolean | Promise<boolean>,
  ): Promise<void> {
    for (const key of [
      ...this.#tables.times.keys({ from: ['log', this.#now()], to: ['log', Number.MAX_SAFE_INTEGER] }),
    ]) {
      const id = (key as [string, number, string])[2];
      const missing = (): readonly StoredEvent[] => {
        const head = this.#tables.heads.get(id);
        const last = this.#lastEvent(id);
        return head === undefined || last === null ? [] : finalizer.missing(this.#stored(id, head), last);
      };
      if (missing().length === 0 || (await isRunning(this.#tables.heads.get(id)?.organizationId ?? '', id))) continue;
      await this.#tables.store.transaction(() => this.#append(id, missing()));
    }
  }

  sweep(): Promise<number> {
    const done = this.#background.then(() => this.#erasure.sweep());
    this.#background = done.catch(() => undefined);
    return done;
  }

  async close(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#stopListening();
    this.#erasure.close();
    await this.#background;
  }

  async #saveStaged(record: ResponseRecord, parts: ItemParts): Promise<void> {
    try {
      await this.#stage(record.id, parts);
      await this.#tables.store.transaction(() => {
        if (this.#write(record, null)) void this.#tables.times.remove(['staged', 0, record.id]);
        else this.#erasure.removeStaged(record.id);
      });
    } catch (error) {
      await this.#erasure.unstage(record.id).catch(() => undefined); // the next startup retries
      throw error;
    }
  }

  /**
   * Must be called within a transaction. `parts`: null if they have already been written. Returns false and writes
   * nothing if the response was deleted in the meantime or belongs to another organization.
   */
  #write(record: ResponseRecord, parts: ItemParts | null): boolean {
    const { heads, resources, inputs, outputs, images, items, times } = this.#tables;
    const { id, organizationId, model, createdAt, status, background } = record;
    const known = heads.get(id);
    if (known !== undefined && (known.dead || known.organizationId !== organizationId)) return false;
    const previousId = known === undefined ? record.previousId : known.previousId;
    const made = known === undefined ? record.madeAt : known.madeAt;
    const madeAt = made === undefined ? {} : { madeAt: made };
    let contextSize = known?.contextSize ?? 0;
    if (known === undefined) {
      // A background response is first saved as queued, so if it is missing, it has been deleted in the meantime.
      if (background && status !== 'queued') return false;
      const rows = itemRows(record.input);
      for (const page of pages(rows)) void inputs.put([id, page.first], page.rows);
      contextSize = sizeOf(rows) + (previousId === null ? 0 : (heads.get(previousId)?.chainSize ?? 0));
      void times.put(['created', createdAt, id], []);
      void this.#tables.byOrganization.put(listKey(id, { organizationId, createdAt, ...madeAt }), []);
    }
    const preview = known === undefined ? previewOf(record.input) : (known.preview ?? null);
    const output = outputRow(record);
    const ended = background && !isUnfinished(status);
    if (background && !ended) void times.put(['open', 0, id], []);
    else if (background) void times.remove(['open', 0, id]);
    if (known !== undefined && known.logUntil !== null) void times.remove(['log', known.logUntil, id]);
    void heads.put(id, {
      organizationId,
      model,
      createdAt: known?.createdAt ?? createdAt,
      ...madeAt,
      status,
      background,
      previousId,
      depth: known?.depth ?? this.#join(organizationId, previousId),
      children: known?.children ?? 0,
      dead: false,
      contextSize,
      chainSize: contextSize + sizeOf(output.items),
      logUntil: ended ? this.#noteLogEnd(id) : null,
      ...(preview === null ? {} : { preview }),
      ...(background && !ended && known?.usage !== undefined ? { usage: known.usage } : {}),
    });
    void resources.put(id, JSON.stringify({ ...record.resource, output: null }));
    void outputs.put(id, output);
    for (const { key, value } of parts?.index ?? []) void items.put(key, value);
    for (const { key, value } of parts?.images ?? []) void images.put(key, value);
    return true;
  }

  /** Counts a new continuation of `previousId`. Returns the depth of the continuation's chain. */
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
    await times.put(
      ['staged', 0, id],
      index.map(({ key }) => key),
    );
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

  /** Makes data visible that other threads have saved since this event-loop turn started. */
  #renew(): void {
    if (this.#shared) this.#tables.store.refresh();
  }

  #readable(organizationId: string, id: string): Head | null {
    if (!isResponseId(id)) return null;
    const head = this.#tables.heads.get(id);
    if (head === undefined || head.organizationId !== organizationId || head.dead || this.#erasure.isExpired(head))
      return null;
    return head;
  }

  #stored(id: string, head: Head): StoredResponse {
    const resource = this.#tables.resource(id);
    const out = this.#tables.outputs.get(id);
    if (resource === undefined || out === undefined) throw erased(id);
    resource['output'] = out.shown ?? out.items.map(({ item }) => item);
    return { ...headOf(id, head), resource };
  }

  /** The response and its ancestors, newest first. Ends early if one is missing. */
  *#ancestors(id: string, { organizationId }: Head): Generator<Link> {
    for (let at: string | null = id; at !== null; ) {
      const head = this.#tables.heads.get(at);
      if (head === undefined || head.organizationId !== organizationId) return;
      yield [at, head];
      at = head.previousId;
    }
  }

  /** Reports a write failure to the client without its cause, which only the operator may see. */
  async #written<T>(write: () => Promise<T>): Promise<T> {
    try {
      return await write();
    } catch (error) {
      const why = undoneBy(error);
      if (why === null) throw error;
      if (performance.now() - this.#failureLoggedAt >= FAILURE_LOG_MS) {
        this.#failureLoggedAt = performance.now();
        this.#onWriteFailure(why);
      }
      throw apiError('maintenance', 'The server cannot store responses right now.', null, { cause: error });
    }
  }
}

const headOf = (
  id: string,
  { organizationId, model, createdAt, status, background, previousId }: Head,
): ResponseHead => ({ id, organizationId, model, createdAt, status, background, previousId });
