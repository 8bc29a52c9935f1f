// Memberships and roles. Owns the `memberships` table, keyed [organization, user], and the `members-by-user` table,
// keyed [user, organization]. Methods that write must be called within a transaction.

import type { Role } from '../../../shared/wire/organizations.js';
import type { Key, Store, Table } from '../../store.js';
import type { Membership } from '../../../accounts/members.js';

export class MembershipTable {
  private readonly memberships: Table<Membership>;
  private readonly byUser: Table<true>;

  constructor(store: Store) {
    this.memberships = store.table('memberships');
    this.byUser = store.table('members-by-user');
  }

  get(organizationId: string, userId: string): Membership | undefined {
    return this.memberships.get([organizationId, userId]);
  }

  /** Oldest first. */
  ofOrganization(organizationId: string): Membership[] {
    return [...this.memberships.range(below(organizationId))]
      .map(({ value }) => value)
      .sort((a, b) => a.createdAt.localeCompare(b.createdAt));
  }

  /** Oldest first. */
  ofUser(userId: string): Membership[] {
    return [...this.byUser.keys(below(userId))]
      .map((key) => this.memberships.get([(key as [string, string])[1], userId]))
      .filter((one) => one !== undefined)
      .sort((a, b) => a.createdAt.localeCompare(b.createdAt));
  }

  count(organizationId: string): number {
    let count = 0;
    for (const _ of this.memberships.keys(below(organizationId))) count++;
    return count;
  }

  /** Whether this user is the organization's only owner. */
  isLastOwner(organizationId: string, userId: string): boolean {
    const owners = this.ofOrganization(organizationId).filter(({ role }) => role === 'owner');
    return owners.length === 1 && owners[0]?.userId === userId;
  }

  /** Must be called within a transaction. */
  put(organizationId: string, userId: string, role: Role): Membership {
    const createdAt = this.get(organizationId, userId)?.createdAt ?? new Date().toISOString();
    const membership = { organizationId, userId, role, createdAt };
    void this.memberships.put([organizationId, userId], membership);
    void this.byUser.put([userId, organizationId], true);
    return membership;
  }

  /** Must be called within a transaction. */
  remove(organizationId: string, userId: string): void {
    void this.memberships.remove([organizationId, userId]);
    void this.byUser.remove([userId, organizationId]);
  }
}

const below = (id: string): { from: Key; to: Key } => ({ from: [id], to: [id, '\uffff'] });
