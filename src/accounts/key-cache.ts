// Per-thread cache of API keys. An entry is valid until anything about the key changes, but only for as long as this
// thread is certain to be notified of changes. A cached key is returned without a promise. Ages are measured with the
// monotonic clock and expiry dates are compared with the store's clock, so changing this machine's clock neither
// extends nor shortens a key's validity. Event-loop thread only.

import { performance } from 'node:perf_hooks';
import { ApiError, apiError } from '../shared/errors.js';
import type { RefusedKey } from '../shared/errors.js';
import type { Sender } from '../http/authentication.js';
import type { Identity } from '../shared/identity.js';
import { KeyLookups } from './key-lookups.js';
import { keyDigest } from './keys.js';
import type { UnknownKeys } from './unknown-keys.js';
import { keyRefusal } from './key-store.js';
import type { KeyHolder, KeyStore } from './key-store.js';

// How long a key is cached without change notifications: well below the 5 seconds within which a revocation must take
// effect.
const CACHE_MS = 1_000;
const CACHE_ENTRIES = 10_000;
const KNOWN_KEYS = 2 * CACHE_ENTRIES;
// If the store sends change notifications (KeyCachePolicy), cached entries may be used as long as every change made
// more than this long ago is known to have arrived.
const TRUSTED_MS = 900;
// How long to wait for a possibly unreachable store before using the key's cache entry.
const ANSWER_MS = 1_000;
// Maximum length of a key in a request: the longest key that can be configured, plus some margin.
const MAX_KEY_LENGTH = 512;

const REFUSALS = {
  api_key_revoked: 'The API key has been revoked.',
  api_key_expired: 'The API key has expired.',
  service_account_disabled: 'The service account of this API key is disabled.',
} as const;

// Only existing keys are cached, so that guessed keys cannot fill the cache.
/** `lasts`: the key is valid and never expires, so it can be checked without a clock. */
interface Entry {
  readonly holder: KeyHolder;
  readonly readAt: number;
  readonly lasts: boolean;
}
interface Lookup {
  readonly found: Promise<KeyHolder | undefined>;
  readonly beganAt: number;
}

/** How reliable change notifications are, for a store that sends them. */
export interface KeyCachePolicy {
  /** A monotonic time in milliseconds: every change made before then has arrived. */
  readonly confirmedAt: number;
  /** Whether recent changes may not have arrived yet. */
  readonly away: boolean;
  /** Whether the store is known to be unreachable. If it is merely slow, requests wait for it. */
  readonly gone: boolean;
  /** How long cached keys stay valid while the store is unreachable, in milliseconds after `confirmedAt`. */
  readonly awayMs: number;
}

export interface KeyCacheOptions {
  /** Milliseconds since the Unix epoch, by the clock that decides when keys expire. */
  now?: () => number;
  /** Monotonic milliseconds. */
  elapsed?: () => number;
  /** If absent, keys are cached for one second. */
  policy?: KeyCachePolicy | null;
  /** Limits the attempts per address; null: no limit. */
  unknown?: UnknownKeys | null;
}

export class KeyCache {
  readonly #now: () => number;
  readonly #elapsed: () => number;
  private readonly policy: KeyCachePolicy | null;
  readonly #entries = new Map<string, Entry>();
  /**
   * Digests of keys that exist, including those whose entries were evicted. Their lookups never wait for lookups of
   * unknown keys. When the set is full, the oldest digests are removed first.
   */
  readonly #known = new Set<string>();
  /** The lookups in progress. Requests with the same key share a lookup. */
  readonly #looking = new Map<string, Lookup>();
  readonly #lookups: KeyLookups;
  #lastUsed = new Map<string, number>();
  /**
   * The expiry clock minus the monotonic clock at the last lookup. Used for times of last use, which need not be exact.
   */
  #offset = 0;
  #changes = 0;

  constructor(
    private readonly store: Pick<KeyStore, 'find' | 'noteLastUsed'>,
    { now = Date.now, elapsed = () => performance.now(), policy = null, unknown = null }: KeyCacheOptions = {},
  ) {
    this.#now = now;
    this.#elapsed = elapsed;
    this.policy = policy;
    this.#lookups = new KeyLookups(unknown);
  }

  /**
   * Returns the identity of a key. `from`: the client; the number of unknown keys that it may send is limited. Throws
   * or rejects with ApiError 401, 403, 429 or 503.
   */
  authenticate(secret: string, from: Sender | null = null): Identity | Promise<Identity> {
    if (secret.length > MAX_KEY_LENGTH) throw unknownKey();
    const digest = keyDigest(secret);
    const elapsed = this.#elapsed();
    const entry = this.#entries.get(digest);
    if (entry !== undefined && this.#holds(entry, elapsed)) {
      if (!entry.lasts) return this.#use(entry.holder, from);
      checkAddress(entry.holder, from);
      this.#lastUsed.set(entry.holder.keyId, Math.round(elapsed + this.#offset));
      return entry.holder.identity;
    }
    return this.#look(digest, entry, from);
  }

  /** Number of cached keys and of pending last-use times. */
  get size(): number {
    return this.#entries.size + this.#lastUsed.size;
  }

  /** Drops the entries of one organization or, with null, of all organizations, after a change. */
  forget(organizationId: string | null = null): void {
    this.#changes++;
    this.#looking.clear();
    if (organizationId === null) this.#entries.clear();
    else
      for (const [digest, { holder }] of this.#entries)
        if (holder.identity.organizationId === organizationId) this.#entries.delete(digest);
  }

  /** Writes the last-use times collected since the previous call. */
  async flushLastUsed(): Promise<void> {
    if (this.#lastUsed.size === 0) return;
    const times = this.#lastUsed;
    this.#lastUsed = new Map();
    await this.store.noteLastUsed(times);
  }

  #holds({ readAt }: Entry, now: number): boolean {
    const { policy } = this;
    if (policy === null) return now - readAt <= CACHE_MS && now >= readAt;
    const age = now - Math.max(readAt, policy.confirmedAt);
    return age >= 0 && (age <= TRUSTED_MS || (policy.away && this.#lasts(now)));
  }

  /** Whether cached keys are still valid while the store is unreachable. */
  #lasts(now: number): boolean {
    return this.policy !== null && now - this.policy.confirmedAt <= this.policy.awayMs;
  }

  async #look(digest: string, known: Entry | undefined, from: Sender | null): Promise<Identity> {
    const address = from?.remoteAddress ?? null; // not available after a disconnect
    const changes = this.#changes;
    let holder: KeyHolder | undefined;
    let readAt: number;
    try {
      if (this.policy?.gone === true) throw unreachable(); // no need to try: the change feed keeps reconnecting
      const { found, beganAt } = this.#find(digest, address);
      readAt = beganAt;
      holder = await (known === undefined || this.policy === null ? found : within(ANSWER_MS, found));
    } catch (error) {
      if (
        known === undefined ||
        !(error instanceof ApiError) ||
        changes !== this.#changes ||
        !this.#lasts(this.#elapsed())
      )
        throw error;
      return this.#use(known.holder, address === null ? null : { remoteAddress: address });
    }
    if (holder === undefined) {
      this.#entries.delete(digest);
      this.#known.delete(digest);
      throw unknownKey();
    }
    this.#isKnown(digest);
    if (changes === this.#changes) {
      // the result is cached only if nothing has changed since the lookup began
      if (this.#entries.size >= CACHE_ENTRIES) this.#entries.clear();
      this.#entries.set(digest, {
        holder,
        readAt,
        lasts: !holder.suspended && keyRefusal(holder, Number.MAX_VALUE) === null,
      });
      this.#offset = this.#now() - this.#elapsed();
    }
    return this.#use(holder, address === null ? null : { remoteAddress: address });
  }

  /** Looks up a key. Requests with the same key share the lookup while it runs. */
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

  #use(holder: KeyHolder, from: Sender | null): Identity {
    const now = this.#now();
    heldBy(holder, now);
    checkAddress(holder, from);
    this.#lastUsed.set(holder.keyId, now);
    return holder.identity;
  }
}

/** Returns the identity of a key. Throws ApiError 401 or 403 if the key is unknown or may not be used at time `now`. */
export function heldBy(holder: KeyHolder | undefined, now: number): Identity {
  if (holder === undefined) throw apiError('api_key_revoked', REFUSALS.api_key_revoked);
  const refusal = keyRefusal(holder, now);
  const keyHolder = { organizationId: holder.identity.organizationId, keyId: holder.keyId };
  // Deleting an organization suspends it and revokes all its keys. Requests with such a key are not logged.
  const isDeleted = refusal === 'api_key_revoked' && holder.suspended;
  if (refusal !== null) throw apiError(refusal, REFUSALS[refusal], null, isDeleted ? {} : { keyHolder });
  if (holder.suspended) throw organizationSuspended(keyHolder);
  return holder.identity;
}

/**
 * Checks that the client's address may use the key. Reads the address only if the key is restricted. Throws ApiError
 * 403.
 */
function checkAddress({ addresses, identity, keyId }: KeyHolder, from: Sender | null): void {
  if (addresses === null) return;
  const address = from?.remoteAddress ?? '';
  if (!addresses.allows(address))
    throw apiError(
      'address_not_allowed',
      `This API key is not allowed from the address ${address === '' ? '(unknown)' : address}.`,
      null,
      { keyHolder: { organizationId: identity.organizationId, keyId } },
    );
}

const unreachable = (): Error => apiError('maintenance', 'API keys cannot be looked up right now. Retry shortly.');

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

/** The error for every request made on behalf of a suspended organization. */
export const organizationSuspended = (keyHolder?: RefusedKey): Error =>
  apiError('organization_suspended', 'The organization of this API key is suspended.', null, { keyHolder });
