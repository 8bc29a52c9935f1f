// Implements Invites on the invitations, memberships, users, organizations and audit log tables.

import { apiError } from '../../../shared/errors.js';
import type { Queryable } from '../database.js';
import type { Role } from '../../../shared/wire/organizations.js';
import type { Actor } from '../../../accounts/audit.js';
import { inviteState } from '../../../accounts/invite-links.js';
import {
  checkInviting,
  invitedAlready,
  inviteOfAnother,
  noSuchInvite,
  organizationGone,
  tooManyInvites,
} from '../../../accounts/invites.js';
import type { Invite, Invites, ShownInvite } from '../../../accounts/invites.js';
import { checkBelonging, checkMembers, knownPerson } from '../../../accounts/members.js';
import type { OrganizationView } from '../../../accounts/organizations.js';
import { pageOf } from '../../../accounts/page.js';
import type { Page } from '../../../accounts/page.js';
import type { User } from '../../../accounts/users.js';
import { noteAudit } from './audit-log.js';
import {
  createInvite,
  endInvite,
  endOutlived,
  inviteById,
  inviteOfLink,
  invitesOf,
  showInvites,
} from './invite-rows.js';
import { countBelonging, countMembers, membership, putMember } from './member-rows.js';
import { organizationById } from './organization-rows.js';
import { userById, userWithEmail } from './user-rows.js';
import type { AccountWork } from './work.js';

/**
 * Must be called within a transaction, after a member's role has changed to `own` (undefined: no longer a member).
 * Revokes the invitations that the member created and that this role may not create.
 */
export async function revokeOutlived(
  sql: Queryable,
  {
    now,
    organizationId,
    userId,
    own,
    actor,
  }: { now: number; organizationId: string; userId: string; own: Role | undefined; actor: Actor },
): Promise<void> {
  for (const { id, email } of await endOutlived(sql, now, organizationId, userId, own))
    await noteAudit(sql, organizationId, { actor, action: 'invite.revoked', target: id, detail: { email } });
}

export class PostgresInvites implements Invites {
  constructor(
    private readonly work: AccountWork,
    private readonly now: () => number = Date.now,
  ) {}

  async page(organizationId: string, limit: number, after: string | null): Promise<Page<ShownInvite> | null> {
    const page = pageOf(await invitesOf(this.work.sql, organizationId), limit, after, ({ id }) => id);
    return page === null ? null : { data: await showInvites(this.work.sql, this.now(), page.data), next: page.next };
  }

  create(organizationId: string, email: string, role: Role, by: string, actor: Actor): Promise<ShownInvite> {
    return this.work.change(async (sql) => {
      checkInviting((await membership(sql, organizationId, by))?.role, role);
      const known = await userWithEmail(sql, email);
      if (known !== undefined && (await membership(sql, organizationId, known.id)) !== undefined)
        throw invitedAlready();
      const made = await createInvite(sql, { now: this.now(), organizationId, email, role, createdBy: by });
      if (made === null) throw tooManyInvites();
      await noteAudit(sql, organizationId, {
        actor,
        action: 'invite.created',
        target: made.id,
        detail: { email, role },
      });
      return (await showInvites(sql, this.now(), [made]))[0] as ShownInvite;
    });
  }

  revoke(organizationId: string, id: string, by: string, actor: Actor): Promise<void> {
    return this.work.change(async (sql) => {
      const invite = await inviteById(sql, organizationId, id);
      if (invite === undefined) throw noSuchInvite();
      if (inviteState(invite, this.now()) !== 'pending') return;
      checkInviting((await membership(sql, organizationId, by))?.role, invite.role);
      await endInvite(sql, this.now(), id, 'revoked_at');
      await noteAudit(sql, organizationId, {
        actor,
        action: 'invite.revoked',
        target: id,
        detail: { email: invite.email },
      });
    });
  }

  async ofLink(token: string): Promise<{ invite: Invite; organization: { id: string; name: string } }> {
    const invite = await inviteOfLink(this.work.sql, this.now(), token);
    const { id, name } = await organizationOf(this.work.sql, invite);
    return { invite, organization: { id, name } };
  }

  accept(token: string, user: User, actor: Actor): Promise<OrganizationView> {
    return this.work.change(async (sql) => {
      const invite = await inviteOfLink(sql, this.now(), token);
      if (invite.email !== knownPerson(await userById(sql, user.id)).email) throw inviteOfAnother();
      const organization = await organizationOf(sql, invite);
      if (organization.status === 'suspended')
        throw apiError('organization_suspended', 'The organization is suspended.');
      checkMembers(await countMembers(sql, organization.id));
      checkBelonging(await countBelonging(sql, user.id));
      await endInvite(sql, this.now(), invite.id, 'accepted_at');
      // If the user has joined in another way in the meantime, the current role is kept.
      if ((await membership(sql, organization.id, user.id)) === undefined) {
        await putMember(sql, organization.id, user.id, invite.role);
        await noteAudit(sql, organization.id, {
          actor,
          action: 'member.joined',
          target: user.id,
          detail: {
            role: invite.role,
            email: user.email,
          },
        });
      }
      return organization;
    });
  }
}

async function organizationOf(sql: Queryable, { organizationId }: Invite): Promise<OrganizationView> {
  const organization = await organizationById(sql, organizationId);
  if (organization === undefined) throw organizationGone();
  return organization;
}
