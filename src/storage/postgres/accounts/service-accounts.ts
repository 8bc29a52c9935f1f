// Implements ServiceAccounts on the service accounts, memberships, keys and audit log tables.

import { newAccountId } from '../../../shared/ids.js';
import type { Queryable } from '../database.js';
import { given } from '../../../accounts/api-keys.js';
import type { Actor } from '../../../accounts/audit.js';
import {
  changeNotes,
  checkAccountCount,
  checkAccountName,
  checkManagingAccounts,
  knownAccount,
} from '../../../accounts/service-accounts.js';
import type {
  ListedServiceAccount,
  ServiceAccount,
  ServiceAccountChange,
  ServiceAccounts,
} from '../../../accounts/service-accounts.js';
import { noteAudit } from './audit-log.js';
import { VALID } from './key-rows.js';
import { membership } from './member-rows.js';
import { putServiceAccount, serviceAccountsOf } from './service-account-rows.js';
import type { AccountWork } from './work.js';

export class PostgresServiceAccounts implements ServiceAccounts {
  constructor(private readonly work: AccountWork) {}

  async get(organizationId: string, id: string): Promise<ListedServiceAccount | null> {
    return (await this.#listed(organizationId, await serviceAccountsOf(this.work.sql, organizationId, id)))[0] ?? null;
  }

  async list(organizationId: string): Promise<ListedServiceAccount[]> {
    return this.#listed(organizationId, await serviceAccountsOf(this.work.sql, organizationId));
  }

  create(
    organizationId: string,
    { name, role }: Pick<ServiceAccount, 'name' | 'role'>,
    by: string,
    actor: Actor,
  ): Promise<ListedServiceAccount> {
    return this.work.change(async (sql) => {
      checkManagingAccounts((await membership(sql, organizationId, by))?.role);
      const others = await serviceAccountsOf(sql, organizationId);
      checkAccountCount(others.length);
      checkAccountName(name, others);
      const account: ServiceAccount = {
        id: newAccountId('svc'),
        organizationId,
        name,
        role,
        disabled: false,
        createdBy: by,
        createdAt: new Date().toISOString(),
      };
      await putServiceAccount(sql, account);
      await noteAudit(sql, organizationId, {
        actor,
        action: 'service_account.created',
        target: account.id,
        detail: { name, role },
      });
      return { ...account, activeKeys: 0 };
    });
  }

  async change(
    organizationId: string,
    id: string,
    change: ServiceAccountChange,
    by: string,
    actor: Actor,
  ): Promise<ListedServiceAccount> {
    const changed = await this.work.changeSeen(organizationId, async (sql) => {
      checkManagingAccounts((await membership(sql, organizationId, by))?.role);
      const all = await serviceAccountsOf(sql, organizationId);
      const before = knownAccount(all.find((one) => one.id === id));
      const after: ServiceAccount = { ...before, ...given(change) };
      checkAccountName(
        after.name,
        all.filter((one) => one.id !== id),
      );
      await putServiceAccount(sql, after);
      for (const [action, detail] of changeNotes(before, after))
        await noteAudit(sql, organizationId, { actor, action, target: id, detail: { ...detail } });
      return after;
    });
    return (await this.#listed(organizationId, [changed]))[0] as ListedServiceAccount;
  }

  delete(organizationId: string, id: string, by: string, actor: Actor): Promise<number> {
    return this.work.changeSeen(organizationId, async (sql) => {
      checkManagingAccounts((await membership(sql, organizationId, by))?.role);
      const { name, role } = knownAccount((await serviceAccountsOf(sql, organizationId, id))[0]);
      const now = this.work.now();
      const count = (await activeByOwner(sql, organizationId, now)).get(id) ?? 0;
      await sql.query(
        `UPDATE api_keys SET revoked = true, revoked_at = least(revoked_at, $3)
         WHERE organization_id = $1 AND created_by = $2 AND NOT revoked`,
        [organizationId, id, now],
      );
      await sql.query('DELETE FROM service_accounts WHERE organization_id = $1 AND id = $2', [organizationId, id]);
      await noteAudit(sql, organizationId, {
        actor,
        action: 'service_account.deleted',
        target: id,
        detail: { name, role, revoked_keys: count },
      });
      return count;
    });
  }

  async #listed(organizationId: string, accounts: readonly ServiceAccount[]): Promise<ListedServiceAccount[]> {
    if (accounts.length === 0) return [];
    const counts = await activeByOwner(this.work.sql, organizationId, this.work.now());
    return accounts.map((account) => ({ ...account, activeKeys: counts.get(account.id) ?? 0 }));
  }
}

/** Number of currently valid keys, by owning user or service account. */
async function activeByOwner(sql: Queryable, organizationId: string, now: number): Promise<Map<string, number>> {
  const rows = await sql.query<{ created_by: string; count: number }>(
    `SELECT created_by, count(*) FROM api_keys WHERE organization_id = $1 AND ${VALID} AND created_by IS NOT NULL
     GROUP BY created_by`,
    [organizationId, now],
  );
  return new Map(rows.map(({ created_by: owner, count }) => [owner, count]));
}
