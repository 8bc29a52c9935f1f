// Implements Organizations on the organizations, settings, memberships, invitations, keys and audit log tables.

import type { Store } from '../../store.js';
import type { Actor } from '../../../accounts/audit.js';
import type { Organization } from '../../../accounts/keys.js';
import type { InviteTable } from './invite-table.js';
import type { MembershipTable } from './membership-table.js';
import type { OrganizationTable } from './organization-table.js';
import type { ServiceAccountTable } from './service-account-table.js';
import type { SettingsTable } from './settings-table.js';
import type { UserTable } from './user-table.js';
import type { LmdbApiKeys } from './api-keys.js';
import type { LmdbAuditLog } from './audit-log.js';
import { checkBelonging, knownPerson } from '../../../accounts/members.js';
import { checkOwned, isSameList } from '../../../accounts/organizations.js';
import type {
  OrganizationChange,
  OrganizationOverview,
  Organizations,
  OrganizationSettings,
  OrganizationView,
} from '../../../accounts/organizations.js';
import type { Page } from '../../../accounts/page.js';
import type { User } from '../../../accounts/users.js';

export interface OrganizationsTables {
  organizations: OrganizationTable;
  settings: SettingsTable;
  memberships: MembershipTable;
  users: UserTable;
  invites: InviteTable;
  serviceAccountTable: ServiceAccountTable;
  keys: LmdbApiKeys;
  audit: LmdbAuditLog;
}

export class LmdbOrganizations implements Organizations {
  /** `changed` is called with the organization's ID after each change that affects caches. */
  constructor(
    private readonly store: Store,
    private readonly tables: OrganizationsTables,
    private readonly changed: (organizationId: string) => void,
  ) {}

  async get(id: string): Promise<OrganizationView | null> {
    const organization = this.tables.organizations.get(id);
    return organization === undefined ? null : this.#view(organization);
  }

  async all(): Promise<Organization[]> {
    return this.tables.organizations.list();
  }

  async page(limit: number, after: string | null): Promise<Page<Organization>> {
    return this.tables.organizations.page(limit, after);
  }

  async overview(id: string): Promise<OrganizationOverview | null> {
    const organization = this.tables.organizations.get(id);
    return organization === undefined ? null : this.#overview(organization);
  }

  async overviews(limit: number, after: string | null): Promise<Page<OrganizationOverview>> {
    const { data, next } = this.tables.organizations.page(limit, after);
    return { data: data.map((one) => this.#overview(one)), next };
  }

  async ensureFirst(): Promise<Organization> {
    const { organizations } = this.tables;
    return (
      organizations.list()[0] ??
      this.store.transaction(() => organizations.list()[0] ?? organizations.create('Default'))
    );
  }

  create(name: string, owner: User, most: number, actor: Actor): Promise<OrganizationView> {
    const { organizations, memberships, users, audit } = this.tables;
    return this.store.transaction(() => {
      knownPerson(users.get(owner.id));
      const own = memberships.ofUser(owner.id);
      checkBelonging(own.length);
      checkOwned(
        owner,
        own
          .filter(({ role }) => role === 'owner')
          .map(({ organizationId }) => organizations.get(organizationId))
          .filter((one) => one !== undefined),
        most,
      );
      const organization = organizations.create(name);
      memberships.put(organization.id, owner.id, 'owner');
      void audit.note(organization.id, actor, 'organization.created', organization.id, { name });
      return this.#view(organization);
    });
  }

  rename(id: string, name: string, actor: Actor): Promise<OrganizationView | null> {
    const { organizations, audit } = this.tables;
    return this.store.transaction(() => {
      const before = organizations.get(id);
      const changed = organizations.change(id, { name });
      if (before === undefined || changed === undefined) return null;
      void audit.note(id, actor, 'organization.renamed', id, { from: before.name, to: name });
      return this.#view(changed);
    });
  }

  async change(id: string, change: OrganizationChange, actor: Actor | null): Promise<OrganizationOverview | null> {
    const { organizations, audit } = this.tables;
    const changed = await this.store.transaction(() => {
      const before = organizations.get(id);
      if (before === undefined) return null;
      const next =
        change.status === undefined || change.status === before.status
          ? before
          : (organizations.change(id, { status: change.status }) ?? before);
      if (next !== before && actor !== null)
        void audit.note(
          id,
          actor,
          next.status === 'suspended' ? 'organization.suspended' : 'organization.activated',
          id,
        );
      if (change.limits !== undefined || change.monthlyTokenCap !== undefined) this.#set(id, change, actor);
      if (change.keepsText !== undefined) this.#keepText(id, change.keepsText, actor);
      if (change.dashboardAddresses !== undefined) this.#restrict(id, change.dashboardAddresses, actor);
      return next;
    });
    this.changed(id);
    return changed === null ? null : this.#overview(changed);
  }

  async delete(id: string, actor: Actor): Promise<void> {
    const { organizations, memberships, invites, serviceAccountTable, keys, audit } = this.tables;
    await this.store.transaction(() => {
      serviceAccountTable.removeAll(id);
      for (const { userId } of memberships.ofOrganization(id)) memberships.remove(id, userId);
      invites.removeAll(id);
      void audit.note(id, actor, 'organization.deleted', id, { name: organizations.get(id)?.name ?? null });
      organizations.markDeleted(id);
    });
    this.changed(id);
    await keys.revokeAll(id);
  }

  async resumeDeletions(): Promise<{ id: string; deletedAt: number }[]> {
    const { organizations, keys } = this.tables;
    const half = organizations.halfDeleted();
    for (const { id } of half) await keys.revokeAll(id);
    return half.map(({ id, deletedAt }) => ({ id, deletedAt: Date.parse(deletedAt ?? '') }));
  }

  markErased(id: string): Promise<void> {
    return this.store.transaction(() => this.tables.organizations.markErased(id, 'erased'));
  }

  async eraseKeys(time: number): Promise<void> {
    const { organizations, settings, keys } = this.tables;
    for (const { id } of organizations.deletedBefore(time)) {
      await keys.eraseAll(id);
      await this.store.transaction(() => {
        settings.remove(id);
        organizations.markErased(id, 'keysErased');
      });
    }
  }

  #view(organization: Organization): OrganizationView {
    return { ...organization, settings: this.tables.settings.get(organization.id) };
  }

  #overview(organization: Organization): OrganizationOverview {
    const { memberships, keys } = this.tables;
    return {
      ...this.#view(organization),
      members: memberships.count(organization.id),
      activeKeys: keys.activeCount(organization.id),
    };
  }

  /** Must be called within a transaction. */
  #set(id: string, { limits, monthlyTokenCap }: OrganizationChange, actor: Actor | null): void {
    const { settings, audit } = this.tables;
    const before = settings.get(id);
    const next: OrganizationSettings = {
      ...before,
      limits: limits ?? before.limits,
      monthlyTokenCap: monthlyTokenCap === undefined ? before.monthlyTokenCap : monthlyTokenCap,
    };
    settings.put(id, next);
    if (actor !== null)
      void audit.note(id, actor, 'organization.limits_changed', id, {
        limits: next.limits,
        monthly_token_cap: next.monthlyTokenCap,
      });
  }

  /** Must be called within a transaction. */
  #keepText(id: string, keepsText: boolean, actor: Actor | null): void {
    const { settings, audit } = this.tables;
    const before = settings.get(id);
    if ((before.keepsText ?? false) === keepsText) return;
    settings.put(id, { ...before, keepsText });
    if (actor !== null)
      void audit.note(
        id,
        actor,
        keepsText ? 'organization.request_text_kept' : 'organization.request_text_not_kept',
        id,
      );
  }

  /** Must be called within a transaction. */
  #restrict(id: string, addresses: readonly string[], actor: Actor | null): void {
    const { settings, audit } = this.tables;
    const before = settings.get(id);
    if (isSameList(before.dashboardAddresses ?? [], addresses)) return;
    settings.put(id, { ...before, dashboardAddresses: addresses });
    if (actor !== null) void audit.note(id, actor, 'organization.dashboard_addresses_changed', id, { addresses });
  }
}
