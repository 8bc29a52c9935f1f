// Implements Members on the memberships, users, organizations, sessions, invitations and audit log tables.

import type { Store } from '../../store.js';
import type { Role } from '../../../shared/wire/organizations.js';
import type { Actor } from '../../../accounts/audit.js';
import type { InviteTable } from './invite-table.js';
import type { MembershipTable } from './membership-table.js';
import type { OrganizationTable } from './organization-table.js';
import type { SessionTable } from './session-table.js';
import type { SettingsTable } from './settings-table.js';
import type { UserTable } from './user-table.js';
import type { LmdbAuditLog } from './audit-log.js';
import { lastSignIn } from '../../../accounts/users.js';
import { revokeOutlived } from './invites.js';
import {
  checkBelonging,
  checkJoining,
  checkManaging,
  checkOwner,
  knownMember,
  knownPerson,
  lastOwner,
} from '../../../accounts/members.js';
import type { Member, Members, Membership, OwnOrganization } from '../../../accounts/members.js';
import { pageOf } from '../../../accounts/page.js';
import type { Page } from '../../../accounts/page.js';

export interface MembersTables {
  memberships: MembershipTable;
  users: UserTable;
  organizations: OrganizationTable;
  settings: SettingsTable;
  sessions: SessionTable;
  invites: InviteTable;
  audit: LmdbAuditLog;
}

export class LmdbMembers implements Members {
  constructor(
    private readonly store: Store,
    private readonly tables: MembersTables,
  ) {}

  async of(organizationId: string, userId: string): Promise<OwnOrganization | null> {
    const membership = this.#row(organizationId, userId);
    return membership === undefined ? null : (this.#own(membership) ?? null);
  }

  async organizationsOf(userId: string): Promise<OwnOrganization[]> {
    return this.tables.memberships
      .ofUser(userId)
      .map((membership) => this.#own(membership))
      .filter((one) => one !== undefined);
  }

  async page(organizationId: string, limit: number, after: string | null): Promise<Page<Member> | null> {
    const page = pageOf(this.tables.memberships.ofOrganization(organizationId), limit, after, ({ userId }) => userId);
    return page === null ? null : { data: page.data.map((one) => this.#member(one)), next: page.next };
  }

  async changeRole(organizationId: string, userId: string, role: Role, by: string, actor: Actor): Promise<Member> {
    const { memberships, audit } = this.tables;
    return this.#member(
      await this.store.transaction(() => {
        const own = memberships.get(organizationId, by)?.role;
        checkManaging(own);
        const before = knownMember(this.#row(organizationId, userId));
        checkOwner(own, role, before.role);
        if (before.role === role) return before;
        if (role !== 'owner' && memberships.isLastOwner(organizationId, userId)) throw lastOwner('role');
        void audit.note(organizationId, actor, 'member.role_changed', userId, { from: before.role, to: role });
        revokeOutlived(this.tables, organizationId, userId, role, actor);
        return memberships.put(organizationId, userId, role);
      }),
    );
  }

  assign(organizationId: string, userId: string, role: Role, actor: Actor): Promise<'assigned' | 'last_owner'> {
    const { memberships, organizations, users, audit } = this.tables;
    return this.store.transaction(() => {
      const user = knownPerson(users.get(userId));
      const before = memberships.get(organizationId, userId);
      if (before?.role === role) return 'assigned';
      if (before === undefined) {
        checkJoining(organizations.get(organizationId), memberships.count(organizationId));
        checkBelonging(memberships.ofUser(userId).length);
        void audit.note(organizationId, actor, 'member.joined', userId, { role, email: user.email });
      } else {
        const detail = { from: before.role, to: role, email: user.email };
        if (memberships.isLastOwner(organizationId, userId)) {
          void audit.note(organizationId, actor, 'member.last_owner_kept', userId, detail);
          return 'last_owner';
        }
        void audit.note(organizationId, actor, 'member.role_changed', userId, detail);
        revokeOutlived(this.tables, organizationId, userId, role, actor);
      }
      memberships.put(organizationId, userId, role);
      return 'assigned';
    });
  }

  remove(organizationId: string, userId: string, by: string, actor: Actor): Promise<void> {
    const { memberships, users, sessions, audit } = this.tables;
    const leaving = userId === by;
    return this.store.transaction(() => {
      const own = memberships.get(organizationId, by)?.role;
      if (!leaving) checkManaging(own);
      const member = knownMember(this.#row(organizationId, userId));
      if (!leaving) checkOwner(own, member.role);
      if (memberships.isLastOwner(organizationId, userId)) throw lastOwner('user');
      memberships.remove(organizationId, userId);
      if (!leaving) sessions.endAll(userId);
      void audit.note(organizationId, actor, leaving ? 'member.left' : 'member.removed', userId, {
        role: member.role,
        email: users.get(userId)?.email ?? null,
      });
      revokeOutlived(this.tables, organizationId, userId, undefined, actor);
    });
  }

  /** Longer IDs cannot exist and are not looked up, because LMDB limits key length. */
  #row(organizationId: string, userId: string): Membership | undefined {
    return organizationId.length > 64 || userId.length > 64
      ? undefined
      : this.tables.memberships.get(organizationId, userId);
  }

  #own({ organizationId, role }: Membership): OwnOrganization | undefined {
    const organization = this.tables.organizations.get(organizationId);
    return organization === undefined
      ? undefined
      : { organization: { ...organization, settings: this.tables.settings.get(organizationId) }, role };
  }

  #member(membership: Membership): Member {
    const user = this.tables.users.get(membership.userId);
    const lastLoginAt = user === undefined ? null : lastSignIn(user);
    return { ...membership, email: user?.email ?? '', name: user?.name ?? '', lastLoginAt };
  }
}
