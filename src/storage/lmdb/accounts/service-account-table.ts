// Service accounts. Owns the `service-accounts` table, keyed [organization, service account]. Methods that write must
// be called within a transaction.

import type { ServiceAccount } from '../../../accounts/service-accounts.js';
import type { Key, Store, Table } from '../../store.js';

/** Longer IDs cannot exist, and LMDB limits key length. */
const MAX_ID = 64;

export class ServiceAccountTable {
  private readonly rows: Table<ServiceAccount>;

  constructor(store: Store) {
    this.rows = store.table('service-accounts');
  }

  get(organizationId: string, id: string): ServiceAccount | undefined {
    return organizationId.length > MAX_ID || id.length > MAX_ID ? undefined : this.rows.get([organizationId, id]);
  }

  /** Oldest first. */
  ofOrganization(organizationId: string): ServiceAccount[] {
    return [...this.rows.range(below(organizationId))]
      .map(({ value }) => value)
      .sort((a, b) => a.createdAt.localeCompare(b.createdAt));
  }

  /** Must be called within a transaction. */
  put(account: ServiceAccount): void {
    void this.rows.put([account.organizationId, account.id], account);
  }

  /** Must be called within a transaction. */
  remove(organizationId: string, id: string): void {
    void this.rows.remove([organizationId, id]);
  }

  /** Must be called within a transaction. */
  removeAll(organizationId: string): void {
    for (const key of [...this.rows.keys(below(organizationId))]) void this.rows.remove(key);
  }
}

const below = (id: string): { from: Key; to: Key } => ({ from: [id], to: [id, '\uffff'] });
