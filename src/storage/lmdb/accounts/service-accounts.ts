// Implements ServiceAccounts on the service accounts, memberships, keys and audit log tables.

import { newAccountId } from '../../../shared/ids.js';
import type { Store } from '../../store.js';
import type { Actor } from '../../../accounts/audit.js';
import { given } from '../../../accounts/api-keys.js';
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
import type { MembershipTable } from './membership-table.js';
import type { ServiceAccountTable } from './service-account-table.js';
import type { LmdbApiKeys } from './api-keys.js';
import type { LmdbAuditLog } from './audit-log.js';

export interface ServiceAccountsTables {
  serviceAccountTable: ServiceAccountTable;
  memberships: MembershipTable;
  keys: LmdbApiKeys;
  audit: LmdbAuditLog;
}

export class LmdbServiceAccounts implements ServiceAccounts {
  /** `changed` is called with the organization's ID after each change that affects caches. */
  constructor(
    private readonly store: Store,
    private readonly tables: ServiceAccountsTables,
    private readonly changed: (organizationId: string) => void,
  ) {}

  async get(organizationId: string, id: string): Promise<ListedServiceAccount | null> {
    const account = this.tables.serviceAccountTable.get(organizationId, id);
    return account === undefined ? null : (this.#listed(organizationId, [account])[0] ?? null);
  }

  async list(organizationId: string): Promise<ListedServiceAccount[]> {
    return this.#listed(organizationId, this.tables.serviceAccountTable.ofOrganization(organizationId));
  }

  create(
    organizationId: string,
    { name, role }: Pick<ServiceAccount, 'name' | 'role'>,
    by: string,
    actor: Actor,
  ): Promise<ListedServiceAccount> {
    const { serviceAccountTable, audit } = this.tables;
    return this.store.transaction(() => {
      this.#checkManaging(organizationId, by);
      const others = serviceAccountTable.ofOrganization(organizationId);
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
      serviceAccountTable.put(account);
      void audit.note(organizationId, actor, 'service_account.created', account.id, { name, role });
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
    const { serviceAccountTable, audit } = this.tables;
    const changed = await this.store.transaction(() => {
      this.#checkManaging(organizationId, by);
      const before = knownAccount(serviceAccountTable.get(organizationId, id));
      const after: ServiceAccount = { ...before, ...given(change) };
      checkAccountName(
        after.name,
        serviceAccountTable.ofOrganization(organizationId).filter((one) => one.id !== id),
      );
      serviceAccountTable.put(after);
      for (const [action, detail] of changeNotes(before, after))
        void audit.note(organizationId, actor, action, id, { ...detail });
      return after;
    });
    this.changed(organizationId);
    return this.#listed(organizationId, [changed])[0] as ListedServiceAccount;
  }

  async delete(organizationId: string, id: string, by: string, actor: Actor): Promise<number> {
    const { serviceAccountTable, keys, audit } = this.tables;
    const revoked = await this.store.transaction(() => {
      this.#checkManaging(organizationId, by);
      const { name, role } = knownAccount(serviceAccountTable.get(organizationId, id));
      const count = keys.revokeOwned(organizationId, id);
      serviceAccountTable.remove(organizationId, id);
      void audit.note(organizationId, actor, 'service_account.deleted', id, { name, role, revoked_keys: count });
      return count;
    });
    this.changed(organizationId);
    return revoked;
  }

  #checkManaging(organizationId: string, by: string): void {
    checkManagingAccounts(this.tables.memberships.get(organizationId, by)?.role);
  }

  #listed(organizationId: string, accounts: readonly ServiceAccount[]): ListedServiceAccount[] {
    const counts = accounts.length === 0 ? new Map<string, number>() : this.tables.keys.activeByOwner(organizationId);
    return accounts.map((account) => ({ ...account, activeKeys: counts.get(account.id) ?? 0 }));
  }
}
