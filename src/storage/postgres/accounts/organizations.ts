// Implements Organizations on the organizations, memberships, invitations, keys and audit log tables.

import type { Queryable } from '../database.js';
import type { Actor } from '../../../accounts/audit.js';
import type { Organization } from '../../../accounts/keys.js';
import { checkBelonging, knownPerson } from '../../../accounts/members.js';
import { checkOwned, isSameList, NO_SETTINGS } from '../../../accounts/organizations.js';
import type {
  OrganizationChange,
  OrganizationOverview,
  Organizations,
  OrganizationSettings,
  OrganizationView,
} from '../../../accounts/organizations.js';
import type { Page } from '../../../accounts/page.js';
import type { User } from '../../../accounts/users.js';
import type { PostgresApiKeys } from './api-keys.js';
import { noteAudit } from './audit-log.js';
import { VALID } from './key-rows.js';
import { ownOrganizations, putMember } from './member-rows.js';
import {
  changeOrganization,
  createOrganization,
  deletedOrganizations,
  markDeleted,
  organizationById,
  organizationsFrom,
  organizationsInOrder,
} from './organization-rows.js';
import { userById } from './user-rows.js';
import type { AccountWork } from './work.js';

export class PostgresOrganizations implements Organizations {
  constructor(
    private readonly work: AccountWork,
    private readonly keys: PostgresApiKeys,
  ) {}

  async get(id: string): Promise<OrganizationView | null> {
    return (await organizationById(this.work.sql, id)) ?? null;
  }

  all(): Promise<Organization[]> {
    return organizationsInOrder(this.work.sql);
  }

  async page(limit: number, after: string | null): Promise<Page<Organization>> {
    const { data, next } = sliceAt(await organizationsFrom(this.work.sql, limit + 1, after), limit);
    return { data: data.map(({ settings: _settings, ...organization }) => organization), next };
  }

  async overview(id: string): Promise<OrganizationOverview | null> {
    const organization = await this.get(id);
    return organization === null ? null : ((await this.#overviews([organization]))[0] ?? null);
  }

  async overviews(limit: number, after: string | null): Promise<Page<OrganizationOverview>> {
    const { data, next } = sliceAt(await organizationsFrom(this.work.sql, limit + 1, after), limit);
    return { data: await this.#overviews(data), next };
  }

  async ensureFirst(): Promise<Organization> {
    const first = async (sql: Queryable): Promise<Organization | undefined> => (await organizationsInOrder(sql, 1))[0];
    return (
      (await first(this.work.sql)) ??
      (await this.work.change(async (sql) => (await first(sql)) ?? (await createOrganization(sql, 'Default'))))
    );
  }

  create(name: string, owner: User, most: number, actor: Actor): Promise<OrganizationView> {
    return this.work.change(async (sql) => {
      knownPerson(await userById(sql, owner.id));
      const own = await ownOrganizations(sql, owner.id);
      checkBelonging(own.length);
      checkOwned(
        owner,
        own.filter(({ role }) => role === 'owner').map(({ organization }) => organization),
        most,
      );
      const organization = await createOrganization(sql, name);
      await putMember(sql, organization.id, owner.id, 'owner');
      await noteAudit(sql, organization.id, {
        actor,
        action: 'organization.created',
        target: organization.id,
        detail: { name },
      });
      return organization;
    });
  }

  rename(id: string, name: string, actor: Actor): Promise<OrganizationView | null> {
    return this.work.change(async (sql) => {
      const before = await organizationById(sql, id);
      const changed = await changeOrganization(sql, id, { name });
      if (before === undefined || changed === undefined) return null;
      await noteAudit(sql, id, {
        actor,
        action: 'organization.renamed',
        target: id,
        detail: { from: before.name, to: name },
      });
      return changed;
    });
  }

  async change(id: string, change: OrganizationChange, actor: Actor | null): Promise<OrganizationOverview | null> {
    const changed = await this.work.changeSeen(id, async (sql) => {
      const before = await organizationById(sql, id);
      if (before === undefined) return null;
      const status = change.status ?? before.status;
      const settings: OrganizationSettings = {
        limits: change.limits ?? before.settings.limits,
        keepsText: change.keepsText ?? before.settings.keepsText ?? false,
        monthlyTokenCap:
          change.monthlyTokenCap === undefined ? before.settings.monthlyTokenCap : change.monthlyTokenCap,
        dashboardAddresses: change.dashboardAddresses ?? before.settings.dashboardAddresses ?? [],
      };
      const next = await changeOrganization(sql, id, { status, settings });
      const note = (action: string, detail = {}): Promise<void> | undefined =>
        actor === null ? undefined : noteAudit(sql, id, { actor, action, target: id, detail });
      if (status !== before.status)
        await note(status === 'suspended' ? 'organization.suspended' : 'organization.activated');
      if (change.limits !== undefined || change.monthlyTokenCap !== undefined)
        await note('organization.limits_changed', {
          limits: settings.limits,
          monthly_token_cap: settings.monthlyTokenCap,
        });
      if (settings.keepsText !== (before.settings.keepsText ?? false))
        await note(
          settings.keepsText === true ? 'organization.request_text_kept' : 'organization.request_text_not_kept',
        );
      const addresses = settings.dashboardAddresses ?? [];
      if (!isSameList(addresses, before.settings.dashboardAddresses ?? []))
        await note('organization.dashboard_addresses_changed', { addresses });
      return next ?? null;
    });
    return changed === null ? null : ((await this.#overviews([changed]))[0] ?? null);
  }

  async delete(id: string, actor: Actor): Promise<void> {
    await this.work.changeSeen(id, async (sql) => {
      await sql.query('DELETE FROM memberships WHERE organization_id = $1', [id]);
      await sql.query('DELETE FROM invites WHERE organization_id = $1', [id]);
      await sql.query('DELETE FROM service_accounts WHERE organization_id = $1', [id]);
      await noteAudit(sql, id, {
        actor,
        action: 'organization.deleted',
        target: id,
        detail: {
          name: (await organizationById(sql, id))?.name ?? null,
        },
      });
      await markDeleted(sql, id);
    });
    await this.keys.revokeAll(id);
  }

  async resumeDeletions(): Promise<{ id: string; deletedAt: number }[]> {
    const half = await deletedOrganizations(this.work.sql, null);
    for (const { id } of half) await this.keys.revokeAll(id);
    return half;
  }

  async markErased(id: string): Promise<void> {
    await this.work.sql.query('UPDATE organizations SET erased = true WHERE id = $1', [id]);
  }

  async eraseKeys(time: number): Promise<void> {
    for (const { id } of await deletedOrganizations(this.work.sql, time)) {
      await this.keys.eraseAll(id);
      await this.work.sql.query(
        'UPDATE organizations SET keys_erased = true, limits = $2, monthly_token_cap = NULL, keeps_text = false, dashboard_addresses = DEFAULT WHERE id = $1',
        [id, JSON.stringify(NO_SETTINGS.limits)],
      );
    }
  }

  async #overviews(organizations: readonly OrganizationView[]): Promise<OrganizationOverview[]> {
    const counts = await this.work.sql.query<{ id: string; members: number; keys: number }>(
      `SELECT id, (SELECT count(*) FROM memberships WHERE organization_id = asked.id) AS members,
         (SELECT count(*) FROM api_keys WHERE organization_id = asked.id AND ${VALID}) AS keys
       FROM unnest($1::text[]) AS asked (id)`,
      [organizations.map(({ id }) => id), this.work.now()],
    );
    const byId = new Map(counts.map((one) => [one.id, one]));
    return organizations.map((one) => ({
      ...one,
      members: byId.get(one.id)?.members ?? 0,
      activeKeys: byId.get(one.id)?.keys ?? 0,
    }));
  }
}

/** Builds a page from a query that fetched one row more than `limit`. */
function sliceAt<T extends { id: string }>(found: readonly T[], limit: number): Page<T> {
  const data = found.slice(0, limit);
  return { data, next: found.length > limit ? (data.at(-1)?.id ?? null) : null };
}
