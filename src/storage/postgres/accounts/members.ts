// Implements Members on the memberships, users, organizations, sessions, invitations and audit log tables.

import type { Role } from '../../../shared/wire/organizations.js';
import type { Actor } from '../../../accounts/audit.js';
import {
  checkBelonging,
  checkJoining,
  checkManaging,
  checkOwner,
  knownMember,
  knownPerson,
  lastOwner,
} from '../../../accounts/members.js';
import type { Member, Members, OwnOrganization } from '../../../accounts/members.js';
import { pageOf } from '../../../accounts/page.js';
import type { Page } from '../../../accounts/page.js';
import { noteAudit } from './audit-log.js';
import { revokeOutlived } from './invites.js';
import {
  countBelonging,
  countMembers,
  isLastOwner,
  membership,
  membershipOf,
  ownOrganizations,
  putMember,
  removeMember,
} from './member-rows.js';
import type { MembershipRow } from './member-rows.js';
import { organizationById } from './organization-rows.js';
import { endSessions } from './session-rows.js';
import { dateOrNull } from './times.js';
import { userById } from './user-rows.js';
import type { AccountWork } from './work.js';

type MemberRow = MembershipRow & { email: string | null; name: string | null; last_login_at: number | null };

export class PostgresMembers implements Members {
  constructor(
    private readonly work: AccountWork,
    private readonly now: () => number = Date.now,
  ) {}

  async of(organizationId: string, userId: string): Promise<OwnOrganization | null> {
    return (await ownOrganizations(this.work.sql, userId, organizationId))[0] ?? null;
  }

  organizationsOf(userId: string): Promise<OwnOrganization[]> {
    return ownOrganizations(this.work.sql, userId);
  }

  async page(organizationId: string, limit: number, after: string | null): Promise<Page<Member> | null> {
    return pageOf(await this.#members(organizationId, null), limit, after, ({ userId }) => userId);
  }

  async changeRole(organizationId: string, userId: string, role: Role, by: string, actor: Actor): Promise<Member> {
    const changed = await this.work.change(async (sql) => {
      const own = (await membership(sql, organizationId, by))?.role;
      checkManaging(own);
      const before = knownMember(await membership(sql, organizationId, userId));
      checkOwner(own, role, before.role);
      if (before.role === role) return before;
      if (role !== 'owner' && (await isLastOwner(sql, organizationId, userId))) throw lastOwner('role');
      await noteAudit(sql, organizationId, {
        actor,
        action: 'member.role_changed',
        target: userId,
        detail: { from: before.role, to: role },
      });
      await revokeOutlived(sql, { now: this.now(), organizationId, userId, own: role, actor });
      return await putMember(sql, organizationId, userId, role);
    });
    const [member] = await this.#members(organizationId, userId);
    return member ?? { ...changed, email: '', name: '', lastLoginAt: null };
  }

  assign(organizationId: string, userId: string, role: Role, actor: Actor): Promise<'assigned' | 'last_owner'> {
    return this.work.change(async (sql) => {
      const user = knownPerson(await userById(sql, userId));
      const note = (action: string, detail: object): Promise<void> =>
        noteAudit(sql, organizationId, { actor, action, target: userId, detail: { ...detail, email: user.email } });
      const before = await membership(sql, organizationId, userId);
      if (before?.role === role) return 'assigned';
      if (before === undefined) {
        checkJoining(await organizationById(sql, organizationId), await countMembers(sql, organizationId));
        checkBelonging(await countBelonging(sql, userId));
        await note('member.joined', { role });
      } else {
        const detail = { from: before.role, to: role };
        if (await isLastOwner(sql, organizationId, userId)) {
          await note('member.last_owner_kept', detail);
          return 'last_owner';
        }
        await note('member.role_changed', detail);
        await revokeOutlived(sql, { now: this.now(), organizationId, userId, own: role, actor });
      }
      await putMember(sql, organizationId, userId, role);
      return 'assigned';
    });
  }

  remove(organizationId: string, userId: string, by: string, actor: Actor): Promise<void> {
    const leaving = userId === by;
    return this.work.change(async (sql) => {
      const own = (await membership(sql, organizationId, by))?.role;
      if (!leaving) checkManaging(own);
      const member = knownMember(await membership(sql, organizationId, userId));
      if (!leaving) checkOwner(own, member.role);
      if (await isLastOwner(sql, organizationId, userId)) throw lastOwner('user');
      await removeMember(sql, organizationId, userId);
      if (!leaving) await endSessions(sql, userId);
      await noteAudit(sql, organizationId, {
        actor,
        action: leaving ? 'member.left' : 'member.removed',
        target: userId,
        detail: {
          role: member.role,
          email: (await userById(sql, userId))?.email ?? null,
        },
      });
      await revokeOutlived(sql, { now: this.now(), organizationId, userId, own: undefined, actor });
    });
  }

  /** Oldest membership first. With `userId`, returns only that member. */
  async #members(organizationId: string, userId: string | null): Promise<Member[]> {
    const rows = await this.work.sql.query<MemberRow>(
      `SELECT memberships.organization_id, memberships.user_id, memberships.role, memberships.created_at, users.email, users.name,
         coalesce(users.last_login_at, users.created_at) AS last_login_at
       FROM memberships LEFT JOIN users ON users.id = memberships.user_id
       WHERE memberships.organization_id = $1 AND memberships.user_id = coalesce($2, memberships.user_id)
       ORDER BY memberships.created_at, memberships.user_id`,
      [organizationId, userId],
    );
    return rows.map((row) => ({
      ...membershipOf(row),
      email: row.email ?? '',
      name: row.name ?? '',
      lastLoginAt: dateOrNull(row.last_login_at),
    }));
  }
}
