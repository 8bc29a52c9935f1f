// Who an API key speaks for, looked up per request, and the organizations behind it. Owns what this thread
// remembers of keys for a second; the keys at rest are api-keys.ts's. What changes is forgotten here at once,
// in the other threads by the bus, and in other processes within that second.

import type { LimitOverride } from '../config/kinds.js';
import { apiError } from '../errors.js';
import type { Identity } from '../identity/identity.js';
import type { Store, Table } from '../storage/store.js';
import type { ThreadBus } from '../shared/bus.js';
import { ApiKeys } from './api-keys.js';
import type { CreatedKey, NewKey } from './api-keys.js';
export type { CreatedKey, NewKey } from './api-keys.js';
import type { Actor, AuditLog } from './audit.js';
import { keyDigest, timeOf } from './keys.js';
import type { KeyRecord, Organization } from './keys.js';
import { Organizations } from './organizations.js';
import { OrganizationSettingsTable } from './organization-settings.js';
import type { OrganizationSettings } from './organization-settings.js';

// A looked-up key is trusted this long: well under the 5 s in which a revocation must act.
const CACHE_MS = 1_000;
const CACHE_ENTRIES = 10_000;
// How often the times of last use are written, together.
const LAST_USED_FLUSH_MS = 10_000;
// The longest the settings let a chosen key be, with room to spare.
const MAX_KEY_LENGTH = 512;

// Only keys that exist are remembered: whoever tries keys out fills nothing.
interface CacheEntry { keyId: string; revokedAt: number; expiresAt: number; suspended: boolean; identity: Identity; readAt: number }

export interface AccountsOptions {
  bus?: ThreadBus;
  /** Without it nothing is noted: tests, and what makes no changes. */
  audit?: AuditLog;
}

/** Told of changes: of one organization, or null: of any. */
export type AccountsListener = (organizationId: string | null) => void;

/** What an operator may change of an organization. */
export interface OrganizationChange {
  status?: Organization['status'] | undefined;
  limits?: Record<string, LimitOverride> | undefined;
  monthlyTokenCap?: number | null | undefined;
}

export class Accounts {
  readonly keys: ApiKeys;
  readonly settings: OrganizationSettingsTable;
  private readonly organizations: Table<Organization>;
  private readonly cache = new Map<string, CacheEntry>();
  private readonly lastUsed = new Map<string, number>();
  private readonly flushTimer: NodeJS.Timeout;
  private readonly listeners = new Set<AccountsListener>();
  private readonly bus: ThreadBus | null;
  private readonly stopListening: () => void;
  private readonly audit: AuditLog | null;

  constructor(private readonly store: Store, options: AccountsOptions = {}) {
    this.bus = options.bus ?? null;
    this.audit = options.audit ?? null;
    this.organizations = store.table('organizations');
    this.settings = new OrganizationSettingsTable(store);
    this.keys = new ApiKeys(store, this.audit, (organizationId) => this.changed(organizationId));
    this.flushTimer = setInterval(() => void this.flushLastUsed().catch(() => undefined), LAST_USED_FLUSH_MS);
    this.flushTimer.unref();
    this.stopListening = this.bus?.on('accounts.changed', ({ organizationId }) => this.forget(organizationId)) ?? (() => undefined);
  }

  /**
   * Makes the organization and its first key if there is none. With `chosen`, that key is made valid (again
   * on a later start with another choice) and none is created. Returns the secret only when newly created.
   */
  async bootstrap(chosen: string | null): Promise<{ organization: Organization; created: string | null }> {
    const organization = await this.ensureOrganization();
    if (chosen !== null) {
      await this.keys.accept(organization.id, 'chosen key', chosen);
      return { organization, created: null };
    }
    if (!this.keys.empty) return { organization, created: null };
    return { organization, created: (await this.createKey({ name: 'first key' })).secret };
  }

  /** The first organization, made if there is none. */
  async ensureOrganization(): Promise<Organization> {
    return this.firstOrganization() ?? this.store.transaction(() => this.firstOrganization() ?? new Organizations(this.store).create('Default'));
  }

  /** Every organization, oldest first. */
  listOrganizations(): Organization[] {
    return [...this.organizations.range()].map(({ value }) => value).filter((one) => !isDeleted(one)).sort((a, b) => a.tenant - b.tenant);
  }

  /** As it is now, whatever is remembered. Undefined if there is none (any more). */
  organization(id: string): Organization | undefined {
    const organization = id.length > 64 ? undefined : this.organizations.get(id);
    return organization === undefined || isDeleted(organization) ? undefined : organization;
  }

  /** In order of their ids. `after`: the id of the last one before. */
  organizationsPage(limit: number, after: string | null): { data: Organization[]; next: string | null } {
    const from = after === null ? {} : { from: after.slice(0, 64) };
    const data: Organization[] = [];
    for (const { value } of this.organizations.range(from)) {
      if (value.id === after || isDeleted(value)) continue;
      if (data.length === limit) return { data, next: data.at(-1)?.id ?? null };
      data.push(value);
    }
    return { data, next: null };
  }

  /** Null if there is no such organization. It acts at once in this thread, on the others and other processes within a second. */
  async changeOrganization(id: string, change: OrganizationChange, actor: Actor | null): Promise<Organization | null> {
    const changed = await this.store.transaction(() => {
      const organization = this.organization(id);
      if (organization === undefined) return null;
      const next = { ...organization, status: change.status ?? organization.status };
      if (next.status !== organization.status) {
        void this.organizations.put(id, next);
        if (actor !== null) this.audit?.note(id, actor, next.status === 'suspended' ? 'organization.suspended' : 'organization.activated', id);
      }
      if (change.limits !== undefined || change.monthlyTokenCap !== undefined) {
        const before = this.settings.get(id);
        const settings: OrganizationSettings = {
          limits: change.limits ?? before.limits,
          monthlyTokenCap: change.monthlyTokenCap === undefined ? before.monthlyTokenCap : change.monthlyTokenCap,
        };
        void this.settings.put(id, settings);
        if (actor !== null) this.audit?.note(id, actor, 'organization.limits_changed', id, { limits: settings.limits, monthly_token_cap: settings.monthlyTokenCap });
      }
      return next;
    });
    this.changed(id);
    return changed;
  }

  async setOrganizationStatus(id: string, status: Organization['status']): Promise<void> {
    if (await this.changeOrganization(id, { status }, null) === null) throw new Error(`there is no organization ${id}`);
  }

  /** A new key of `organizationId`, or of the first organization. The secret is not kept. */
  async createKey(options: NewKey, organizationId?: string, actor: Actor | null = null): Promise<CreatedKey> {
    const organization = organizationId === undefined ? this.firstOrganization() : this.organization(organizationId);
    if (organization === undefined) throw new Error(organizationId === undefined ? 'there is no organization yet' : `there is no organization ${organizationId}`);
    return this.keys.create(organization.id, options, actor);
  }

  /** Keys of every organization, oldest first. */
  listKeys(): KeyRecord[] {
    return this.keys.all();
  }

  /** `reference`: a key's id, public id or last four characters, if only one key has them. Null if there is no such key. */
  findKey(reference: string): KeyRecord | 'several' | null {
    const bare = reference.replace(/^sk-/, '');
    const found = this.listKeys().filter((key) => key.id === reference || key.publicId === bare);
    const loose = found.length > 0 ? found : this.listKeys().filter((key) => key.last4 === reference && timeOf(key.revokedAt) > Date.now());
    return loose.length > 1 ? 'several' : loose[0] ?? null;
  }

  /** Idempotent. Acts on every process within a second. */
  async revokeKey(id: string): Promise<void> {
    const key = this.listKeys().find((one) => one.id === id);
    if (key !== undefined) await this.keys.revoke(key.organizationId, id, null);
  }

  /** Who a key speaks for. Throws ApiError 401 or 403. */
  authenticate(secret: string): Identity {
    if (secret.length > MAX_KEY_LENGTH) throw unknownKey();
    const digest = keyDigest(secret);
    const now = Date.now();
    let entry = this.cache.get(digest);
    if (entry === undefined || now - entry.readAt > CACHE_MS || now < entry.readAt) {
      entry = this.read(digest, now);
      if (entry === undefined) {
        this.cache.delete(digest);
        throw unknownKey();
      }
      if (this.cache.size >= CACHE_ENTRIES) this.cache.clear();
      this.cache.set(digest, entry);
    }
    if (entry.revokedAt <= now) throw apiError('api_key_revoked', 'The API key has been revoked.');
    if (entry.expiresAt <= now) throw apiError('api_key_expired', 'The API key is past its expiry date.');
    if (entry.suspended) throw suspended();
    this.lastUsed.set(entry.keyId, now);
    return entry.identity;
  }

  /** Who speaks for an organization without a key, with all permissions: its members in the playground. Throws ApiError 403. */
  identityOf(organization: Organization, keyId: string): Identity {
    const current = this.organization(organization.id);
    if (current?.status !== 'active') throw suspended();
    return this.identity(current, { id: keyId, models: ['*'], scopes: ['inference', 'responses.read', 'responses.delete', 'models.read', 'tokens.count'], limits: null });
  }

  /** Something of an organization (null: of any) was changed in the tables: nothing remembered of it holds any more, on any thread. */
  changed(organizationId: string | null): void {
    this.forget(organizationId);
    this.bus?.publish('accounts.changed', { organizationId });
  }

  /** Called after each change that this thread makes or hears of. Returns how to stop. */
  onChanged(listener: AccountsListener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Writes the times of last use gathered since the last call. */
  async flushLastUsed(): Promise<void> {
    if (this.lastUsed.size === 0) return;
    const times = [...this.lastUsed];
    this.lastUsed.clear();
    await this.keys.noteLastUsed(times);
  }

  async close(): Promise<void> {
    clearInterval(this.flushTimer);
    this.stopListening();
    await this.flushLastUsed();
  }

  private forget(organizationId: string | null): void {
    this.cache.clear();
    for (const listener of [...this.listeners]) listener(organizationId);
  }

  private read(digest: string, readAt: number): CacheEntry | undefined {
    const key = this.keys.findByDigest(digest);
    const organization = key === undefined ? undefined : this.organizations.get(key.organizationId);
    if (key === undefined || organization === undefined) return undefined;
    return {
      // What an organization that is gone had are revoked keys.
      keyId: key.id, revokedAt: isDeleted(organization) ? 0 : timeOf(key.revokedAt), expiresAt: timeOf(key.expiresAt), suspended: organization.status === 'suspended',
      identity: this.identity(organization, key), readAt,
    };
  }

  private identity(organization: Organization, key: Pick<KeyRecord, 'id' | 'models' | 'scopes' | 'limits'>): Identity {
    const { limits, monthlyTokenCap } = this.settings.get(organization.id);
    return Object.freeze({
      organizationId: organization.id, organizationNumber: organization.tenant, keyId: key.id,
      models: Object.freeze([...key.models]), scopes: Object.freeze([...key.scopes]),
      limits, keyLimits: key.limits, monthlyTokenCap,
    });
  }

  private firstOrganization(): Organization | undefined {
    return this.listOrganizations()[0];
  }
}

const isDeleted = ({ deletedAt = null }: Organization): boolean => deletedAt !== null;

const unknownKey = (): Error => apiError('invalid_api_key', 'The API key is not valid.');

/** What whoever speaks for a suspended organization is told, wherever they are. */
export const suspended = (): Error => apiError('organization_suspended', 'The organization of this API key is suspended.');
