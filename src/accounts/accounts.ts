// Organizations and API keys. Owns the tables `organizations`, `keys` and `keys-by-hash`. One organization
// is made on first use of a data folder; the tables hold any number.

import { timingSafeEqual } from 'node:crypto';
import { apiError } from '../errors.js';
import type { Identity, Scope } from '../http/exchange.js';
import { newAccountId, newApiKey } from '../ids.js';
import type { Store, Table } from '../storage/store.js';
import { ALL_SCOPES, hashKey, keyStatus } from './keys.js';
import type { KeyRecord, Organization } from './keys.js';

// A looked-up key is trusted this long: well under the 5 s in which a revocation must act.
const CACHE_MS = 1_000;
const CACHE_ENTRIES = 10_000;
// How often the times of last use are written, together.
const LAST_USED_FLUSH_MS = 10_000;

export interface NewKey {
  name: string;
  models?: string[];
  scopes?: Scope[];
  expiresAt?: Date | null;
}

export interface CreatedKey { key: KeyRecord; secret: string }

interface CacheEntry { key: KeyRecord; organization: Organization; identity: Identity; readAt: number }

export class Accounts {
  private readonly organizations: Table<Organization>;
  private readonly keys: Table<KeyRecord>;
  private readonly byHash: Table<string>;
  private readonly cache = new Map<string, CacheEntry>();
  private readonly lastUsed = new Map<string, string>();
  private readonly flushTimer: NodeJS.Timeout;

  constructor(private readonly store: Store) {
    this.organizations = store.table('organizations');
    this.keys = store.table('keys');
    this.byHash = store.table('keys-by-hash');
    this.flushTimer = setInterval(() => void this.flushLastUsed().catch(() => undefined), LAST_USED_FLUSH_MS);
    this.flushTimer.unref();
  }

  /**
   * Makes the organization and its first key if there is none. With `chosen`, that key is made valid (again
   * on a later start with another choice) and none is created. Returns the secret only when newly created.
   */
  async bootstrap(chosen: string | null): Promise<{ organization: Organization; created: string | null }> {
    const organization = await this.ensureOrganization();
    if (chosen !== null) {
      const hash = hashKey(chosen);
      if (this.byHash.get(hash.toString('hex')) === undefined) await this.insertKey(organization, { name: 'chosen key' }, chosen, null);
      return { organization, created: null };
    }
    if (!this.keys.range({ limit: 1 })[Symbol.iterator]().next().done) return { organization, created: null };
    return { organization, created: (await this.createKey({ name: 'first key' })).secret };
  }

  /** The first organization, made if there is none. */
  async ensureOrganization(): Promise<Organization> {
    const known = this.firstOrganization();
    if (known !== undefined) return known;
    const organization: Organization = { id: newAccountId('org'), tenant: 1, name: 'Default', status: 'active', createdAt: new Date().toISOString() };
    await this.organizations.put(organization.id, organization);
    return organization;
  }

  /** Every organization, oldest first. */
  listOrganizations(): Organization[] {
    return [...this.organizations.range()].map(({ value }) => value).sort((a, b) => a.tenant - b.tenant);
  }

  async setOrganizationStatus(id: string, status: Organization['status']): Promise<void> {
    const organization = this.organizations.get(id);
    if (organization === undefined) throw new Error(`there is no organization ${id}`);
    await this.organizations.put(id, { ...organization, status });
    this.cache.clear();
  }

  /** A new key of `organizationId`, or of the first organization. The secret is not kept. */
  async createKey(options: NewKey, organizationId?: string): Promise<CreatedKey> {
    const organization = organizationId === undefined ? this.firstOrganization() : this.organizations.get(organizationId);
    if (organization === undefined) throw new Error(organizationId === undefined ? 'there is no organization yet' : `there is no organization ${organizationId}`);
    const { secret, publicId } = newApiKey();
    return { key: await this.insertKey(organization, options, secret, publicId), secret };
  }

  /** Keys of every organization, oldest first. */
  listKeys(): KeyRecord[] {
    return [...this.keys.range()].map(({ value }) => value).sort((a, b) => a.createdAt.localeCompare(b.createdAt));
  }

  /** `reference`: a key's id, public id or last four characters, if only one key has them. Null if there is no such key. */
  findKey(reference: string): KeyRecord | 'several' | null {
    const bare = reference.replace(/^sk-/, '');
    const found = this.listKeys().filter((key) => key.id === reference || key.publicId === bare);
    const loose = found.length > 0 ? found : this.listKeys().filter((key) => key.last4 === reference && key.revokedAt === null);
    return loose.length > 1 ? 'several' : loose[0] ?? null;
  }

  /** Idempotent. Acts on every process within a second. */
  async revokeKey(id: string): Promise<void> {
    await this.store.transaction(() => {
      const key = this.keys.get(id);
      if (key !== undefined && key.revokedAt === null) void this.keys.put(id, { ...key, revokedAt: new Date().toISOString() });
    });
    this.cache.clear();
  }

  /** Who a key speaks for. Throws ApiError 401 or 403. */
  authenticate(secret: string): Identity {
    const hash = hashKey(secret);
    const hex = hash.toString('hex');
    const now = Date.now();
    let entry = this.cache.get(hex);
    if (entry === undefined || now - entry.readAt > CACHE_MS) {
      entry = this.read(hash, hex, now);
      if (entry === undefined) {
        this.cache.delete(hex);
        throw apiError('invalid_api_key', 'The API key is not valid.');
      }
      if (this.cache.size >= CACHE_ENTRIES) this.cache.clear();
      this.cache.set(hex, entry);
    }
    const { key, organization, identity } = entry;
    const date = new Date(now);
    const status = keyStatus(key, date);
    if (status === 'revoked') throw apiError('api_key_revoked', 'The API key has been revoked.');
    if (status === 'expired') throw apiError('api_key_expired', 'The API key is past its expiry date.');
    if (organization.status === 'suspended') throw apiError('organization_suspended', 'The organization of this API key is suspended.');
    this.lastUsed.set(key.id, date.toISOString());
    return identity;
  }

  /** Writes the times of last use gathered since the last call. */
  async flushLastUsed(): Promise<void> {
    if (this.lastUsed.size === 0) return;
    const times = [...this.lastUsed];
    this.lastUsed.clear();
    await this.store.transaction(() => {
      for (const [id, lastUsedAt] of times) {
        const key = this.keys.get(id);
        if (key !== undefined) void this.keys.put(id, { ...key, lastUsedAt });
      }
    });
  }

  async close(): Promise<void> {
    clearInterval(this.flushTimer);
    await this.flushLastUsed();
  }

  private read(hash: Buffer, hex: string, readAt: number): CacheEntry | undefined {
    const id = this.byHash.get(hex);
    const key = id === undefined ? undefined : this.keys.get(id);
    if (key === undefined || key.hash.length !== hash.length || !timingSafeEqual(key.hash, hash)) return undefined;
    const organization = this.organizations.get(key.organizationId);
    if (organization === undefined) return undefined;
    const identity: Identity = Object.freeze({
      organizationId: organization.id, tenant: organization.tenant, keyId: key.id,
      models: Object.freeze([...key.models]), scopes: Object.freeze([...key.scopes]),
      limits: {}, keyLimits: null, monthlyTokenCap: null,
    });
    return { key, organization, identity, readAt };
  }

  private firstOrganization(): Organization | undefined {
    return this.listOrganizations()[0];
  }

  private async insertKey(organization: Organization, options: NewKey, secret: string, publicId: string | null): Promise<KeyRecord> {
    const hash = hashKey(secret);
    const key: KeyRecord = {
      id: newAccountId('key'), organizationId: organization.id, createdBy: null, name: options.name, publicId,
      last4: secret.slice(-4), hash: new Uint8Array(hash), models: options.models ?? ['*'], scopes: options.scopes ?? [...ALL_SCOPES],
      expiresAt: options.expiresAt?.toISOString() ?? null, lastUsedAt: null, createdAt: new Date().toISOString(),
      revokedAt: null, rotatedFrom: null,
    };
    await this.store.transaction(() => {
      void this.keys.put(key.id, key);
      void this.byHash.put(hash.toString('hex'), key.id);
    });
    return key;
  }
}
