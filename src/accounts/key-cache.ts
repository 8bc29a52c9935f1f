// API keys cached by one thread: until something about them changes, and only as long as this thread would learn of a change.
// A cached key costs no promise. Ages are measured by the monotonic clock, the ends of keys judged by the store's clock, so
// setting this machine's clock neither keeps a key valid nor ends it early. Event-loop thread only.

import { performance } from 'node:perf_hooks';
import { ApiError, apiError } from '../shared/errors.js';
import type { Sender } from '../http/authentication.js';
import type { Identity } from '../shared/identity.js';
import { KeyLookups } from './key-lookups.js';
import { keyDigest } from './keys.js';
import type { UnknownKeys } from './unknown-keys.js';
import { keyRefusal } from './key-store.js';
import type { KeyHolder, KeyStore } from './key-store.js';

// A looked-up key is trusted this long: well under the 5 s in which a revocation must act.
const CACHE_MS = 1_000;
const CACHE_ENTRIES = 10_000;
const KNOWN_KEYS = 2 * CACHE_ENTRIES;
// Where changes are told (KeyTrust), what was remembered holds as long as everything is known that was changed so long ago.
const TRUSTED_MS = 900;
// For one whose key is remembered: so long a store may take that is perhaps away.
const ANSWER_MS = 1_000;
// The longest the settings let a chosen key be, with room to spare.
const MAX_KEY_LENGTH = 512;

const REFUSALS = {
  api_key_revoked: 'The API key has been revoked.',
  api_key_expired: 'The API key is past its expiry date.',
} as const;

// Only keys that exist are remembered: whoever tries keys out fills nothing.
/** `lasts`: valid, and no end is set, so that no clock decides. */
interface Entry {
  readonly holder: KeyHolder;
  readonly readAt: number;
  readonly lasts: boolean;
}
interface Lookup {
  readonly found: Promise<KeyHolder | undefined>;
  readonly beganAt: number;
}

/** How far notifications of changes can be relied on, for a store that sends them. */
export interface KeyTrust {
  /** Monotonic milliseconds: every change made before this moment has arrived here. */
  readonly confirmedAt: number;
  /** It is not known what was changed of late. */
  readonly away: boolean;
  /** The store cannot be asked at the moment, and says so: one that is only slow is waited for. */
  readonly gone: boolean;
  /** How long remembered keys go on then, in milliseconds since `confirmedAt`. */
  readonly awayMs: number;
}

export interface KeyCacheOptions {
  /** Milliseconds since 1970, by the clock that ends keys. */
  now?: () => number;
  /** Monotonic milliseconds. */
  elapsed?: () => number;
  /** Without it a key is cached for a second. */
  trust?: KeyTrust | null;
  /** Limits attempts from one address; null: no limit. */
  unknown?: UnknownKeys | null;
}

export class KeyCache {
  readonly #now: () => number;
  readonly #elapsed: () => number;
  private readonly trust: KeyTrust | null;
  readonly #entries = new Map<string, Entry>();
  /** Digests of keys that exist, including those whose entry was dropped. Their lookups never wait for lookups of unknown keys. The oldest are removed first. */
  readonly #known = new Set<string>();
  /** Lookups under way, so that requests with the same key share one. */
  readonly #looking = new Map<string, Lookup>();
  readonly #lookups: KeyLookups;
  #lastUsed = new Map<string, number>();
  /** Clock that ends keys minus monotonic clock, as of the last lookup: for the times of last use, which need not be exact. */
  #offset = 0;
  #changes = 0;

  constructor(
    private readonly store: Pick<KeyStore, 'find' | 'noteLastUsed'>,
    { now = Date.now, elapsed = () => performance.now(), trust = null, unknown = null }: KeyCacheOptions = {},
  ) {
    this.#now = now;
    this.#elapsed = elapsed;
    this.trust = trust;
    this.#lookups = new KeyLookups(unknown);
  }

  /** The owner of a key. `from`: the client, whose unknown keys are limited. Throws or rejects with ApiError 401, 403, 429, 503. */
  authenticate(secret: string, from: Sender | null = null): Identity | Promise<Identity> {
    if (secret.length > MAX_KEY_LENGTH) throw unknownKey();
    const digest = keyDigest(secret);
    const elapsed = this.#elapsed();
    const entry = this.#entries.get(digest);
    if (entry !== undefined && this.#holds(entry, elapsed)) {
      if (!entry.lasts) return this.#use(entry.holder);
      this.#lastUsed.set(entry.holder.keyId, Math.round(elapsed + this.#offset));
      return entry.holder.identity;
    }
    return this.#look(digest, entry, from?.remoteAddress ?? null);
  }

  /** Keys it remembers, and uses of keys. */
  get size(): number {
    return this.#entries.size + this.#lastUsed.size;
  }

  /** Something was changed, of one organization or (null) of any: what is remembered of it holds no more. */
  forget(organizationId: string | null = null): void {
    this.#changes++;
    this.#looking.clear();
    if (organizationId === null) this.#entries.clear();
    else
      for (const [digest, { holder }] of this.#entries)
        if (holder.identity.organizationId === organizationId) this.#entries.delete(digest);
  }

  /** Writes the times of last use gathered since the last call. */
  async flushLastUsed(): Promise<void> {
    if (this.#lastUsed.size === 0) return;
    const times = this.#lastUsed;
    this.#lastUsed = new Map();
    await this.store.noteLastUsed(times);
  }

  #holds({ readAt }: Entry, now: number): boolean {
    const { trust } = this;
    if (trust === null) return now - readAt <= CACHE_MS && now >= readAt;
    const age = now - Math.max(readAt, trust.confirmedAt);
    return age >= 0 && (age <= TRUSTED_MS || (trust.away && this.#lasts(now)));
  }

  /** While the store is away. */
  #lasts(now: number): boolean {
    return this.trust !== null && now - this.trust.confirmedAt <= this.trust.awayMs;
  }

  async #look(digest: string, known: Entry | undefined, address: string | null): Promise<Identity> {
    const changes = this.#changes;
    let holder: KeyHolder | undefined;
    let readAt: number;
    try {
      if (this.trust?.gone === true) throw unreachable(); // the change feed keeps trying
      const { found, beganAt } = this.#find(digest, address);
      readAt = beganAt;
      holder = await (known === undefined || this.trust === null ? found : within(ANSWER_MS, found));
    } catch (error) {
      if (
        known === undefined ||
        !(error instanceof ApiError) ||
        changes !== this.#changes ||
        !this.#lasts(this.#elapsed())
      )
        throw error;
      return this.#use(known.holder);
    }
    if (holder === undefined) {
      this.#entries.delete(digest);
      this.#known.delete(digest);
      throw unknownKey();
    }
    this.#isKnown(digest);
    if (changes === this.#changes) {
      // else it may be as it was before the change
      if (this.#entries.size >= CACHE_ENTRIES) this.#entries.clear();
      this.#entries.set(digest, {
        holder,
        readAt,
        lasts: !holder.suspended && keyRefusal(holder, Number.MAX_VALUE) === null,
      });
      this.#offset = this.#now() - this.#elapsed();
    }
    return this.#use(holder);
  }

  /** One lookup for all requests that come with the key meanwhile. */
  #find(digest: string, address: string | null): Lookup {
    const looking = this.#looking.get(digest);
    if (looking !== undefined) return looking;
    const find = (): Promise<KeyHolder | undefined> => this.store.find(digest);
    const lookup: Lookup = {
      beganAt: this.#elapsed(),
      found: this.#known.has(digest) ? find() : this.#lookups.run(address, find),
    };
    this.#looking.set(digest, lookup);
    const over = (): void => {
      if (this.#looking.get(digest) === lookup) this.#looking.delete(digest);
    };
    lookup.found.then(over, over);
    return lookup;
  }

  #isKnown(digest: string): void {
    if (this.#known.has(digest)) return;
    const [oldest] = this.#known;
    if (oldest !== undefined && this.#known.size >= KNOWN_KEYS) this.#known.delete(oldest);
    this.#known.add(digest);
  }

  #use(holder: KeyHolder): Identity {
    const now = this.#now();
    const refusal = keyRefusal(holder, now);
    if (refusal !== null) throw apiError(refusal, REFUSALS[refusal]);
    if (holder.suspended) throw organizationSuspended();
    this.#lastUsed.set(holder.keyId, now);
    return holder.identity;
  }
}

const unreachable = (): Error => apiError('maintenance', 'API keys cannot be looked up at the moment.');

/** Rejects with ApiError 503. */
async function within<T>(ms: number, found: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(unreachable()), ms).unref();
  });
  try {
    return await Promise.race([found, late]);
  } finally {
    clearTimeout(timer);
  }
}

const unknownKey = (): Error => apiError('invalid_api_key', 'The API key is not valid.');

/** What whoever speaks for a suspended organization is told, wherever they are. */
export const organizationSuspended = (): Error =>
  apiError('organization_suspended', 'The organization of this API key is suspended.');
