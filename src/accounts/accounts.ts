// Who an API key speaks for, looked up per request, and the ways in that need no port of their own. What this
// thread remembers of keys is key-cache.ts's. What changes is forgotten here at once, in the other threads by the bus,
// and in other processes within a second.

import type { Sender } from '../http/authentication.js';
import type { Identity } from '../shared/identity.js';
import type { ApiKeys, CreatedKey, NewKey } from './api-keys.js';
import type { Actor } from './audit.js';
import type { AccountChanges, AccountsListener } from './changes.js';
import type { Directory } from './directory.js';
import { KeyCache, organizationSuspended } from './key-cache.js';
import type { KeyTrust } from './key-cache.js';
import { identityFor, keyRefusal } from './key-store.js';
import type { KeyStore } from './key-store.js';
import { keyStatus } from './keys.js';
import type { KeyRecord, Organization } from './keys.js';
import type { Organizations, OrganizationView } from './organizations.js';
import type { UnknownKeys } from './unknown-keys.js';

// How often the times of last use are written, together.
const LAST_USED_FLUSH_MS = 10_000;

export type RunEndCode = 'organization_suspended' | 'api_key_revoked' | 'api_key_expired';

/** Ids of keys, unlike what stands for the playground. */
const isKeyId = (id: string): boolean => id.startsWith('key_');

export class Accounts {
  readonly keys: ApiKeys;
  readonly organizations: Organizations;
  /** As Directory.now. */
  readonly now: () => number;
  private readonly keyStore: KeyStore;
  private readonly cache: KeyCache;
  private readonly flushTimer: NodeJS.Timeout;
  private readonly stopListening: () => void;

  /** `trust`: for a store that reports changes; without it keys are cached for a second. `unknown`: limits unknown keys per address. */
  constructor(
    { apiKeys, organizations, keyStore, now }: Pick<Directory, 'apiKeys' | 'organizations' | 'keyStore' | 'now'>,
    private readonly changes: AccountChanges,
    trust: KeyTrust | null = null,
    unknown: UnknownKeys | null = null,
  ) {
    this.keys = apiKeys;
    this.organizations = organizations;
    this.now = now;
    this.keyStore = keyStore;
    this.cache = new KeyCache(keyStore, { now, trust, unknown });
    this.stopListening = changes.on((organizationId) => this.cache.forget(organizationId)); // before anybody who asks here again
    this.flushTimer = setInterval(() => void this.flushLastUsed().catch(() => undefined), LAST_USED_FLUSH_MS);
    this.flushTimer.unref();
  }

  /**
   * Makes the organization and its first key if there is none. With `chosen`, that key is made valid (again
   * on a later start with another choice) and none is created. Returns the secret only when newly created.
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
      throw new Error(`there is no organization ${id}`);
  }

  /** A new key of `organizationId`, or of the first organization. The secret is not kept. */
  async createKey(options: NewKey, organizationId?: string, actor: Actor | null = null): Promise<CreatedKey> {
    const organization =
      organizationId === undefined ? (await this.organizations.all())[0] : await this.organizations.get(organizationId);
    if (organization == null)
      throw new Error(
        organizationId === undefined ? 'there is no organization yet' : `there is no organization ${organizationId}`,
      );
    return this.keys.create(organization.id, options, actor);
  }

  /** `reference`: a key's id, public id or last four characters, if only one key has them. Null if there is no such key. */
  async findKey(reference: string): Promise<KeyRecord | 'several' | null> {
    const bare = reference.replace(/^sk-/, '');
    const all = await this.keys.all();
    const found = all.filter((key) => key.id === reference || key.publicId === bare);
    const loose =
      found.length > 0
        ? found
        : all.filter((key) => key.last4 === reference && keyStatus(key, new Date(this.now())) !== 'revoked');
    return loose.length > 1 ? 'several' : (loose[0] ?? null);
  }

  /** Idempotent. Acts on every process within a second. */
  async revokeKey(id: string): Promise<void> {
    const key = (await this.keys.all()).find((one) => one.id === id);
    if (key !== undefined) await this.keys.revoke(key.organizationId, id, null);
  }

  /** As KeyCache.authenticate(). */
  authenticate(secret: string, from: Sender | null = null): Identity | Promise<Identity> {
    return this.cache.authenticate(secret, from);
  }

  /** Why the running requests of each key must end; null if they may continue. An id that is not a key's (the playground) stands for the organization. */
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

  /** Called after each change that this thread makes or hears of. Returns how to stop. */
  onChanged(listener: AccountsListener): () => void {
    return this.changes.on(listener);
  }

  /** Writes the times of last use gathered since the last call. */
  async flushLastUsed(): Promise<void> {
    await this.cache.flushLastUsed();
  }

  async close(): Promise<void> {
    clearInterval(this.flushTimer);
    this.stopListening();
    await this.flushLastUsed();
  }
}

/** Who speaks for an organization without a key, with all permissions: its members in the playground. Throws ApiError 403. */
export function identityWithoutKey(organization: OrganizationView, keyId: string): Identity {
  if (organization.status !== 'active') throw organizationSuspended();
  return identityFor(organization, organization.settings, {
    id: keyId,
    models: ['*'],
    scopes: ['inference', 'responses.read', 'responses.delete', 'models.read', 'tokens.count'],
    limits: null,
  });
}
