// What one thread remembers of keys: for a second, and no longer than nobody says that something has changed. A
// key that is remembered is answered for at once, without a promise. Event-loop thread only.

import { apiError } from '../errors.js';
import type { Identity } from '../identity/identity.js';
import { keyDigest } from './keys.js';
import type { KeyHolder, KeyStore } from './key-store.js';

// A looked-up key is trusted this long: well under the 5 s in which a revocation must act.
const CACHE_MS = 1_000;
const CACHE_ENTRIES = 10_000;
// The longest the settings let a chosen key be, with room to spare.
const MAX_KEY_LENGTH = 512;

// Only keys that exist are remembered: whoever tries keys out fills nothing.
interface Entry { readonly holder: KeyHolder; readonly readAt: number }

export class KeyCache {
  readonly #entries = new Map<string, Entry>();
  #lastUsed = new Map<string, number>();
  #changes = 0;

  constructor(private readonly store: KeyStore, private readonly now: () => number = Date.now) {}

  /** Who a key speaks for. Throws or rejects with ApiError 401 or 403. */
  authenticate(secret: string): Identity | Promise<Identity> {
    if (secret.length > MAX_KEY_LENGTH) throw unknownKey();
    const digest = keyDigest(secret);
    const now = this.now();
    const entry = this.#entries.get(digest);
    return entry === undefined || now - entry.readAt > CACHE_MS || now < entry.readAt ? this.#look(digest, now) : this.#use(entry.holder, now);
  }

  /** Keys it remembers, and uses of keys. */
  get size(): number {
    return this.#entries.size + this.#lastUsed.size;
  }

  /** Something was changed: nothing remembered holds any more. */
  forget(): void {
    this.#changes++;
    this.#entries.clear();
  }

  /** Writes the times of last use gathered since the last call. */
  async flushLastUsed(): Promise<void> {
    if (this.#lastUsed.size === 0) return;
    const times = this.#lastUsed;
    this.#lastUsed = new Map();
    await this.store.noteLastUsed(times);
  }

  async #look(digest: string, readAt: number): Promise<Identity> {
    const changes = this.#changes;
    const holder = await this.store.find(digest);
    if (holder === undefined) {
      this.#entries.delete(digest);
      throw unknownKey();
    }
    if (changes === this.#changes) {               // else it may be as it was before the change
      if (this.#entries.size >= CACHE_ENTRIES) this.#entries.clear();
      this.#entries.set(digest, { holder, readAt });
    }
    return this.#use(holder, this.now());
  }

  #use({ keyId, revokedAt, expiresAt, suspended, identity }: KeyHolder, now: number): Identity {
    if (revokedAt <= now) throw apiError('api_key_revoked', 'The API key has been revoked.');
    if (expiresAt <= now) throw apiError('api_key_expired', 'The API key is past its expiry date.');
    if (suspended) throw organizationSuspended();
    this.#lastUsed.set(keyId, now);
    return identity;
  }
}

const unknownKey = (): Error => apiError('invalid_api_key', 'The API key is not valid.');

/** What whoever speaks for a suspended organization is told, wherever they are. */
export const organizationSuspended = (): Error => apiError('organization_suspended', 'The organization of this API key is suspended.');
