// Stores and finds the token IDs of generated tool calls and reasoning blocks ("items"), for one thread. Writes are
// batched, and recent items are cached. Failures are logged and never fail a request. Event-loop thread only.
import { BatchWriter } from '../../storage/batch-writer.js';
import type { Log } from '../../telemetry/types.js';
import { callKey, packTokens, reasoningKey, unpackTokens, type WrittenItem } from './replay-item.js';
import type { Charged } from '../provider.js';
import type { FoundReplay, ReplayRow, ReplayStore } from './replay-store.js';

/**
 * Items are collected for about this time, in ms, and then written together. Other threads and processes can read them
 * only after the write.
 */
const FLUSH_MS = 20;
/** Maximum number of items that wait to be written. Further items are dropped. */
const MAX_WAITING = 4_096;
/** Maximum number of items per write to the store. */
const BATCH = 128;
/** Maximum size of the cache, in bytes. */
const CACHE_BYTES = 16 * 1024 * 1024;
/** Estimated memory of a cache entry without its token IDs, in bytes. */
const ENTRY_BYTES = 300;
/** Maximum age of a cache entry, in ms. Limits how long this thread uses an item that another thread has erased. */
const CACHE_MS = 60_000;
/**
 * Delay, in ms, after which a deleted response's items are erased a second time, because other threads may still have
 * had such items to write.
 */
const LATE_MS = 2_000;
/** Maximum number of items that are looked up for one request. Further items are tokenized from their text. */
const MAX_KEYS = 8_192;
/** Maximum number of items per read from the store. */
const FIND_BATCH = 256;
const LOG_MS = 60_000;

export interface WantedReplays {
  readonly organizationId: string;
  /** Identifies the model. Only items that this model generated are returned. */
  readonly model: string;
  /** Keys to look up, most important first. If a limit is exceeded, keys at the end of the list are dropped. */
  readonly keys: readonly string[];
}

export interface FindLimits {
  /** Maximum total number of tokens of the returned items. More tokens would not fit into the context window. */
  readonly maxTokens: number;
  readonly charged: Charged;
}

/** The part of Replays that the prompt builder uses. */
export interface ReplaySource {
  /** Returns the token IDs of the organization's items, by key. Keys that are not found are absent. */
  find(wanted: WantedReplays, limits: FindLimits): Promise<ReadonlyMap<string, Int32Array>>;
}

/** One choice's items, with the data needed to store them. */
export interface Recorded {
  readonly organizationId: string;
  readonly model: string;
  readonly items: readonly WrittenItem[];
  /** Returns the random part of a tool call's ID. `index`: the index of the call within the choice. */
  callId(index: number): string | undefined;
  /** The stored response that contains the items; null if there is none. */
  readonly responseId: string | null;
}

export interface ReplaySettings {
  /** Lifetime of items that belong to no stored response, in seconds; 0 = such items are not stored. */
  readonly keepS: number;
  /** Lifetime of stored responses and their items, in seconds. */
  readonly responseS: number;
  readonly log: Log;
  now?(): number;
}

interface Cached {
  readonly model: string;
  readonly ids: Int32Array;
  readonly responseId: string | null;
  /** Time at which the entry expires, on the clock of performance.now(). */
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

  async find(
    { organizationId, model, keys }: WantedReplays,
    { maxTokens, charged }: FindLimits,
  ): Promise<ReadonlyMap<string, Int32Array>> {
    const found = new Map<string, Int32Array>();
    const wanted = [...new Set(keys)].slice(0, Math.min(MAX_KEYS, maxTokens)); // an item has at least one token
    let tokens = 0;
    const add = (key: string, ids: Int32Array): void => {
      tokens += ids.length;
      if (tokens <= maxTokens) found.set(key, ids);
    };
    try {
      for (let at = 0; at < wanted.length && tokens <= maxTokens; at += FIND_BATCH) {
        if (at > 0) await new Promise(setImmediate); // yield to other requests on the event loop
        const missing: string[] = [];
        for (const key of wanted.slice(at, at + FIND_BATCH)) {
          const cached = this.#cached(organizationId, key);
          if (cached === undefined) missing.push(key);
          else if (cached.model === model) add(key, cached.ids);
        }
        if (missing.length === 0 || tokens > maxTokens) continue;
        const rows = await this.store.find(organizationId, missing);
        const bytes = rows.reduce((sum, row) => sum + row.tokens.length, 0);
        charged(bytes, () => {
          for (const row of rows) {
            if (tokens > maxTokens) return;
            const ids = this.#unpacked(organizationId, row);
            if (ids !== null && row.model === model) add(row.key, ids);
          }
        });
      }
    } catch (err) {
      if (performance.now() - this.#loggedAt > LOG_MS) {
        this.#loggedAt = performance.now();
        this.settings.log.warn({ err }, 'cannot read the tokens of earlier tool calls: their text is tokenized');
      }
    }
    return found;
  }

  /** Decodes the token IDs of a row and adds them to the cache. Returns null if the row has expired or is invalid. */
  #unpacked(organizationId: string, { key, model, tokens, expiresAt }: FoundReplay): Int32Array | null {
    const ids = unpackTokens(tokens);
    const leftMs = 1_000 * (expiresAt - this.#now());
    if (ids === null || leftMs <= 0) return null;
    this.#keep(organizationId, key, { model, ids, responseId: null }, leftMs);
    return ids;
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

  /** Erases the items of a deleted response. */
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

  /** Flushes all recorded items. Resolves when every item has been written or has failed to be written. */
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
