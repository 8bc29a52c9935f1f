// Implements Users on the users, memberships, organizations, sessions and audit log tables.

import type { Store } from '../../store.js';
import type { Actor } from '../../../accounts/audit.js';
import type { MembershipTable } from './membership-table.js';
import type { OrganizationTable } from './organization-table.js';
import type { SessionTable } from './session-table.js';
import type { UserTable } from './user-table.js';
import type { LmdbAuditLog } from './audit-log.js';
import type { Page } from '../../../accounts/page.js';
import { changedRights, noSuchUser } from '../../../accounts/users.js';
import type { ListedUser, User, UserRights, Users } from '../../../accounts/users.js';

export interface UsersTables {
  users: UserTable;
  memberships: MembershipTable;
  organizations: OrganizationTable;
  sessions: SessionTable;
  audit: LmdbAuditLog;
}

export class LmdbUsers implements Users {
  constructor(
    private readonly store: Store,
    private readonly tables: UsersTables,
  ) {}

  async get(id: string): Promise<User | null> {
    return this.#row(id) ?? null;
  }

  async page(limit: number, after: string | null): Promise<Page<ListedUser>> {
    const found = this.tables.users.list(limit + 1, after);
    const data = found.slice(0, limit);
    return {
      data: data.map((user) => this.#listed(user)),
      next: found.length > limit ? (data.at(-1)?.id ?? null) : null,
    };
  }

  async change(id: string, rights: UserRights, by: string | null, actor: Actor): Promise<ListedUser> {
    const { users, sessions, audit } = this.tables;
    const changed = await this.store.transaction(() => {
      const user = this.#row(id);
      if (user === undefined) throw noSuchUser();
      const wanted = changedRights(user, rights, by, () => users.hasOtherOperator(id));
      if (wanted === null) return user;
      const { locked, operator } = wanted;
      const next = users.change(id, wanted) as User;
      if (locked !== user.locked)
        void audit.note(null, actor, locked ? 'user.locked' : 'user.unlocked', id, { email: user.email });
      if (operator !== user.operator)
        void audit.note(null, actor, operator ? 'user.operator_granted' : 'user.operator_withdrawn', id, {
          email: user.email,
        });
      if (locked && !user.locked) sessions.endAll(id);
      return next;
    });
    return this.#listed(changed);
  }

  #row(id: string): User | undefined {
    return id.length > 64 ? undefined : this.tables.users.get(id);
  }

  #listed(user: User): ListedUser {
    const organizations = this.tables.memberships.ofUser(user.id).flatMap(({ organizationId, role }) => {
      const organization = this.tables.organizations.get(organizationId);
      return organization === undefined ? [] : [{ id: organization.id, name: organization.name, role }];
    });
    return { user, organizations };
  }
}
