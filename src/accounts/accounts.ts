// Who an API key speaks for, looked up per request, and the organizations behind it. What this
// thread remembers of keys is key-cache.ts's; the keys at rest are api-keys.ts's. What changes is forgotten here at
// once, in the other threads by the bus, and in other processes within a second.

import type { LimitOverride } from '../config/kinds.js';
import type { Identity } from '../identity/identity.js';
import type { Store, Table } from '../storage/store.js';
import type { ThreadBus } from '../shared/bus.js';
import { ApiKeys } from './api-keys.js';
import type { CreatedKey, NewKey } from './api-keys.js';
export type { CreatedKey, NewKey } from './api-keys.js';
import type { Actor, AuditLog } from './audit.js';
import { KeyCache, organizationSuspended } from './key-cache.js';
import { timeOf } from './keys.js';
import type { KeyRecord, Organization } from './keys.js';
import { LmdbKeyStore, identityFor } from './lmdb-key-store.js';
import { Organizations } from './organizations.js';
import { OrganizationSettingsTable } from './organization-settings.js';
import type { OrganizationSettings } from './organization-settings.js';

// How often the times of last use are written, together.
const LAST_USED_FLUSH_MS = 10_000;

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
  private readonly cache: KeyCache;
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
    this.cache = new KeyCache(new LmdbKeyStore(store, this.keys, this.settings));
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

  /** Who a key speaks for: at once if that is remembered. Throws or rejects with ApiError 401 or 403. */
  authenticate(secret: string): Identity | Promise<Identity> {
    return this.cache.authenticate(secret);
  }

  /** Who speaks for an organization without a key, with all permissions: its members in the playground. Throws ApiError 403. */
  identityOf(organization: Organization, keyId: string): Identity {
    const current = this.organization(organization.id);
    if (current?.status !== 'active') throw organizationSuspended();
    return identityFor(current, this.settings.get(current.id), { id: keyId, models: ['*'], scopes: ['inference', 'responses.read', 'responses.delete', 'models.read', 'tokens.count'], limits: null });
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
    await this.cache.flushLastUsed();
  }

  async close(): Promise<void> {
    clearInterval(this.flushTimer);
    this.stopListening();
    await this.flushLastUsed();
  }

  private forget(organizationId: string | null): void {
    this.cache.forget();
    for (const listener of [...this.listeners]) listener(organizationId);
  }

  private firstOrganization(): Organization | undefined {
    return this.listOrganizations()[0];
  }
}

const isDeleted = ({ deletedAt = null }: Organization): boolean => deletedAt !== null;
