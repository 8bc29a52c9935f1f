// This thread's access to the tokens of written calls and reasoning blocks: writes are collected into batches, and
// recent items are cached. A failure never fails a request. Event-loop thread only.
import { BatchWriter } from '../../storage/batch-writer.js';
import type { Log } from '../../telemetry/types.js';
import { callKey, packTokens, reasoningKey, unpackTokens, type WrittenItem } from './replay-item.js';
import type { ReplayRow, ReplayStore } from './replay-store.js';

/** Items of this thread are readable by other threads and processes after about this time. */
const FLUSH_MS = 20;
/** Maximum number of items that wait to be written. */
const MAX_WAITING = 4_096;
/** Maximum number of items per write. */
const BATCH = 128;
/** Maximum size of the cache, in bytes of tokens. */
const CACHE_BYTES = 16 * 1024 * 1024;
/** Estimated memory of a cache entry, apart from its tokens. */
const ENTRY_BYTES = 300;
/** A cached item is read again after this time, so that an item erased by another thread is not used for longer. */
const CACHE_MS = 60_000;
/** Items of a deleted response that other threads were about to write are erased after this time. */
const LATE_MS = 2_000;
/** Maximum number of items that one request looks up; further ones are not replayed. */
const MAX_KEYS = 8_192;
const LOG_MS = 60_000;

/** What the prompt builder needs. */
export interface ReplaySource {
  /** The tokens of the organization's items with these keys, if this model wrote them. */
  find(organizationId: string, model: string, keys: readonly string[]): Promise<ReadonlyMap<string, Int32Array>>;
}

/** The items of one choice, and how long they are kept. */
export interface Recorded {
  readonly organizationId: string;
  readonly model: string;
  readonly items: readonly WrittenItem[];
  /** Returns the random part of the ID of the call with this index. */
  callId(index: number): string | undefined;
  /** The stored response that the items belong to. Null: none. */
  readonly responseId: string | null;
}

export interface ReplaySettings {
  /** How long items are kept that belong to no stored response, in seconds. */
  readonly keepS: number;
  /** How long stored responses are kept, in seconds. */
  readonly responseS: number;
  readonly log: Log;
  now?(): number;
}

interface Cached {
  readonly model: string;
  readonly ids: Int32Array;
  readonly responseId: string | null;
  /** performance.now(). */
  readonly until: number;
}

export class Replays implements ReplaySource {
  readonly #cache = new Map<string, Cached>(); // least recently used first
  #cachedBytes = 0;
  readonly #writer: BatchWriter<ReplayRow>;
  readonly #timers = new Set<NodeJS.Timeout>();
  #loggedAt = -Infinity;

  constructor(
    private readonly store: ReplayStore,
    private readonly settings: ReplaySettings,
  ) {
    this.#writer = new BatchWriter({
      what: 'tokens of tool calls and reasoning',
      write: (batch) => store.save(batch),
      log: settings.log,
      batch: BATCH,
      maxWaiting: MAX_WAITING,
      flushMs: FLUSH_MS,
    });
  }

  async find(organizationId: string, model: string, keys: readonly string[]): Promise<ReadonlyMap<string, Int32Array>> {
    const found = new Map<string, Int32Array>();
    const missing: string[] = [];
    for (const key of new Set(keys)) {
      const cached = this.#cached(organizationId, key);
      if (cached === undefined) missing.push(key);
      else if (cached.model === model) found.set(key, cached.ids);
    }
    if (missing.length === 0) return found;
    try {
      for (const row of await this.store.find(organizationId, missing.slice(0, MAX_KEYS))) {
        const ids = unpackTokens(row.tokens);
        if (ids === null) continue;
        const leftMs = 1_000 * (row.expiresAt - this.#now());
        if (leftMs <= 0) continue;
        this.#keep(organizationId, row.key, { model: row.model, ids, responseId: null }, leftMs);
        if (row.model === model) found.set(row.key, ids);
      }
    } catch (err) {
      if (performance.now() - this.#loggedAt > LOG_MS) {
        this.#loggedAt = performance.now();
        this.settings.log.warn({ err }, 'cannot read the tokens of earlier tool calls: their text is tokenized');
      }
    }
    return found;
  }

  record({ organizationId, model, items, callId, responseId }: Recorded): void {
    const keepS = responseId === null ? this.settings.keepS : this.settings.responseS;
    if (keepS <= 0) return;
    for (const item of items) {
      const random = item.kind === 'call' ? callId(item.index) : undefined;
      if (item.kind === 'call' && random === undefined) continue;
      const key = item.kind === 'call' ? callKey(random as string) : reasoningKey(item.text);
      this.#keep(organizationId, key, { model, ids: item.ids, responseId }, 1_000 * keepS);
      const expiresAt = Math.floor(this.#now()) + keepS;
      this.#writer.add({ organizationId, key, model, tokens: packTokens(item.ids), responseId, expiresAt });
    }
  }

  /** Erases what belongs to a deleted response. */
  async eraseResponse(organizationId: string, responseId: string): Promise<void> {
    const start = `${organizationId}\n`;
    for (const [name, { responseId: owner }] of this.#cache)
      if (name.startsWith(start) && (owner === responseId || owner === null)) this.#drop(name);
    await this.#writer.flush();
    await this.store.eraseResponse(organizationId, responseId);
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      void this.store.eraseResponse(organizationId, responseId).catch(() => undefined);
    }, LATE_MS);
    timer.unref();
    this.#timers.add(timer);
  }

  async eraseOrganization(organizationId: string): Promise<void> {
    const start = `${organizationId}\n`;
    for (const name of this.#cache.keys()) if (name.startsWith(start)) this.#drop(name);
    await this.#writer.flush();
    await this.store.eraseOrganization(organizationId);
  }

  /** Resolves when all items recorded so far have been written or have failed to be written. */
  async close(): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer);
    await this.#writer.close();
  }

  #now(): number {
    return this.settings.now?.() ?? Date.now() / 1_000;
  }

  #cached(organizationId: string, key: string): Cached | undefined {
    const name = `${organizationId}\n${key}`;
    const cached = this.#cache.get(name);
    if (cached === undefined) return undefined;
    if (cached.until <= performance.now()) {
      this.#drop(name);
      return undefined;
    }
    this.#cache.delete(name);
    this.#cache.set(name, cached);
    return cached;
  }

  #keep(organizationId: string, key: string, item: Omit<Cached, 'until'>, leftMs: number): void {
    const name = `${organizationId}\n${key}`;
    this.#drop(name);
    this.#cache.set(name, { ...item, until: performance.now() + Math.min(leftMs, CACHE_MS) });
    this.#cachedBytes += sizeOf(item);
    for (const oldest of this.#cache.keys()) {
      if (this.#cachedBytes <= CACHE_BYTES) break;
      this.#drop(oldest);
    }
  }

  #drop(name: string): void {
    const cached = this.#cache.get(name);
    if (cached === undefined) return;
    this.#cache.delete(name);
    this.#cachedBytes -= sizeOf(cached);
  }
}

const sizeOf = ({ ids }: Pick<Cached, 'ids'>): number => ids.byteLength + ENTRY_BYTES;
