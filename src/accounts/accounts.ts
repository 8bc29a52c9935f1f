// Authenticates API keys for each request, and provides the account operations that do not have a dedicated storage
// port. key-cache.ts caches keys per thread. A change invalidates this thread's cache immediately, other threads'
// caches through the bus, and other processes' caches within a second.

import type { Sender } from '../http/authentication.js';
import type { Identity } from '../shared/identity.js';
import type { ApiKeys, CreatedKey, NewKey } from './api-keys.js';
import type { Actor } from './audit.js';
import type { AccountChanges, AccountsListener } from './changes.js';
import type { Directory } from './directory.js';
import { heldBy, KeyCache, organizationSuspended } from './key-cache.js';
import type { KeyCachePolicy } from './key-cache.js';
import { identityFor, keyRefusal } from './key-store.js';
import type { KeyStore } from './key-store.js';
import { ALL_SCOPES, keyStatus } from './keys.js';
import type { KeyRecord, Organization } from './keys.js';
import type { Organizations, OrganizationView } from './organizations.js';
import type { UnknownKeys } from './unknown-keys.js';

// Interval at which the keys' last-use times are written to the store. Each flush writes all times collected since the
// previous one.
const LAST_USED_FLUSH_MS = 10_000;

export type RunEndCode = 'organization_suspended' | 'service_account_disabled' | 'api_key_revoked' | 'api_key_expired';

/** Matches an API key or its displayed form, with or without the separator that earlier releases used. */
const KEY_REFERENCE = /^(?:sk-)?([0-9A-Za-z]{8})(?:-?(?:….*|[0-9A-Za-z]{40})?)?$/;

/** Whether an ID belongs to an API key. The playground's ID does not. */
const isKeyId = (id: string): boolean => id.startsWith('key_');

export class Accounts {
  readonly keys: ApiKeys;
  readonly organizations: Organizations;
  /** The same clock as Directory.now. */
  readonly now: () => number;
  private readonly keyStore: KeyStore;
  private readonly cache: KeyCache;
  private readonly flushTimer: NodeJS.Timeout;
  private readonly stopListening: () => void;

  /**
   * `keyCachePolicy`: set if the store reports changes. Otherwise, keys are cached for one second. `unknown`: limits
   * how many unknown keys each address may send.
   */
  constructor(
    { apiKeys, organizations, keyStore, now }: Pick<Directory, 'apiKeys' | 'organizations' | 'keyStore' | 'now'>,
    private readonly changes: AccountChanges,
    keyCachePolicy: KeyCachePolicy | null = null,
    unknown: UnknownKeys | null = null,
  ) {
    this.keys = apiKeys;
    this.organizations = organizations;
    this.now = now;
    this.keyStore = keyStore;
    this.cache = new KeyCache(keyStore, { now, policy: keyCachePolicy, unknown });
    // registered first, so that the cache is invalidated before this thread's other listeners run
    this.stopListening = changes.on((organizationId) => this.cache.forget(organizationId));
    this.flushTimer = setInterval(() => void this.flushLastUsed().catch(() => undefined), LAST_USED_FLUSH_MS);
    this.flushTimer.unref();
  }

  /**
   * Creates the first organization and its first key if they do not exist yet. If `chosen` is set, makes that key valid
   * instead of creating one. If a later startup passes a different key, that key becomes valid too. Returns the secret
   * only if this call created it.
   */
  async bootstrap(chosen: string | null): Promise<{ organization: Organization; created: string | null }> {
    const organization = await this.organizations.ensureFirst();
    if (chosen !== null) {
      await this.keys.accept(organization.id, 'chosen key', chosen);
      return { organization, created: null };
    }
    return { organization, created: (await this.keys.first(organization.id, { name: 'first key' }))?.secret ?? null };
  }

  async setOrganizationStatus(id: string, status: Organization['status']): Promise<void> {
    if ((await this.organizations.change(id, { status }, null)) === null)
      throw new Error(`organization ${id} not found`);
  }

  /**
   * Creates a key for the organization `organizationId` or, if that is absent, for the first organization. The secret
   * is not stored.
   */
  async createKey(options: NewKey, organizationId?: string, actor: Actor | null = null): Promise<CreatedKey> {
    const organization =
      organizationId === undefined ? (await this.organizations.all())[0] : await this.organizations.get(organizationId);
    if (organization == null)
      throw new Error(
        organizationId === undefined ? 'there is no organization yet' : `organization ${organizationId} not found`,
      );
    return this.keys.create(organization.id, options, actor);
  }

  /**
   * The keys that match `reference`. An ID, a full key, its displayed form (`sk-Ab12Cd34…wxyz`) or its public part
   * identifies one key. Any other text matches all keys with that name or those last four characters; revoked keys are
   * then returned only if there are no others.
   */
  async findKeys(reference: string, organizationId?: string): Promise<KeyRecord[]> {
    const publicId = KEY_REFERENCE.exec(reference)?.[1];
    const all = (await this.keys.all()).filter(
      (key) => organizationId === undefined || key.organizationId === organizationId,
    );
    const found = all.filter((key) => key.id === reference || (publicId !== undefined && key.publicId === publicId));
    if (found.length > 0) return found;
    const loose = all.filter((key) => key.name === reference || key.last4 === reference);
    const now = new Date(this.now());
    const valid = loose.filter((key) => keyStatus(key, now) !== 'revoked');
    return valid.length > 0 ? valid : loose;
  }

  /** Idempotent. Takes effect in every process within a second. */
  async revokeKey(id: string): Promise<void> {
    const key = (await this.keys.all()).find((one) => one.id === id);
    if (key !== undefined) await this.keys.revoke(key.organizationId, id, null);
  }

  /** See KeyCache.authenticate(). */
  authenticate(secret: string, from: Sender | null = null): Identity | Promise<Identity> {
    return this.cache.authenticate(secret, from);
  }

  /**
   * Returns the current identity of an API key by its ID, for requests that the server runs later on the client's
   * behalf (batches). Rejects with ApiError 401 or 403 if the key was revoked or may no longer be used.
   */
  async identityOf(organizationId: string, keyId: string): Promise<Identity> {
    return heldBy(await this.keyStore.findById(organizationId, keyId), this.now());
  }

  /**
   * For each ID, returns why its running requests must be stopped, or null if they may continue. For an ID that does
   * not belong to a key (the playground's ID), only the organization is checked.
   */
  async runEnds(organizationId: string, keyIds: readonly string[]): Promise<(keyId: string) => RunEndCode | null> {
    const { organization, keys } = await this.keyStore.standing(organizationId, keyIds.filter(isKeyId));
    const now = this.now();
    return (keyId) => {
      if (organization !== 'active') return 'organization_suspended';
      if (!isKeyId(keyId)) return null;
      const ends = keys.get(keyId);
      return ends === undefined ? 'api_key_revoked' : keyRefusal(ends, now);
    };
  }

  /**
   * Calls the listener after each change that this thread makes or is notified of. Returns a function that unsubscribes
   * it.
   */
  onChanged(listener: AccountsListener): () => void {
    return this.changes.on(listener);
  }

  /** Writes the last-use times collected since the previous call. */
  async flushLastUsed(): Promise<void> {
    await this.cache.flushLastUsed();
  }

  async close(): Promise<void> {
    clearInterval(this.flushTimer);
    this.stopListening();
    await this.flushLastUsed();
  }
}

/**
 * Returns an identity with all permissions that acts for an organization without an API key. Used for members in the
 * playground. Throws ApiError 403.
 */
export function identityWithoutKey(organization: OrganizationView, keyId: string): Identity {
  if (organization.status !== 'active') throw organizationSuspended();
  return identityFor(organization, organization.settings, {
    id: keyId,
    models: ['*'],
    scopes: [...ALL_SCOPES],
    limits: null,
  });
}
