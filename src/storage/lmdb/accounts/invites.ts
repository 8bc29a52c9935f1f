// Implements Invites on the invitations, memberships, users, organizations and audit log tables.

import { apiError } from '../../../shared/errors.js';
import type { Store } from '../../store.js';
import type { Role } from '../../../shared/wire/organizations.js';
import type { Actor } from '../../../accounts/audit.js';
import {
  checkInviting,
  invitedAlready,
  inviteOfAnother,
  noSuchInvite,
  organizationGone,
  tooManyInvites,
} from '../../../accounts/invites.js';
import type { Invite, Invites, ShownInvite } from '../../../accounts/invites.js';
import type { Organization } from '../../../accounts/keys.js';
import type { InviteTable } from './invite-table.js';
import type { MembershipTable } from './membership-table.js';
import type { OrganizationTable } from './organization-table.js';
import type { SettingsTable } from './settings-table.js';
import type { UserTable } from './user-table.js';
import type { LmdbAuditLog } from './audit-log.js';
import { checkBelonging, checkMembers, knownPerson } from '../../../accounts/members.js';
import type { OrganizationView } from '../../../accounts/organizations.js';
import { pageOf } from '../../../accounts/page.js';
import type { Page } from '../../../accounts/page.js';
import type { User } from '../../../accounts/users.js';

export interface InvitesTables {
  invites: InviteTable;
  memberships: MembershipTable;
  users: UserTable;
  organizations: OrganizationTable;
  settings: SettingsTable;
  audit: LmdbAuditLog;
}

/**
 * Must be called within a transaction, after a member's role has changed to `own` (undefined: no longer a member).
 * Revokes the invitations that the member created and that this role may not create.
 */
export function revokeOutlived(
  { invites, audit }: Pick<InvitesTables, 'invites' | 'audit'>,
  organizationId: string,
  userId: string,
  own: Role | undefined,
  actor: Actor,
): void {
  for (const { id, email } of invites.revokeOutlived(organizationId, userId, own))
    void audit.note(organizationId, actor, 'invite.revoked', id, { email });
}

export class LmdbInvites implements Invites {
  constructor(
    private readonly store: Store,
    private readonly tables: InvitesTables,
  ) {}

  async page(organizationId: string, limit: number, after: string | null): Promise<Page<ShownInvite> | null> {
    const { invites } = this.tables;
    const page = pageOf(invites.list(organizationId), limit, after, ({ id }) => id);
    return page === null ? null : { data: page.data.map((invite) => invites.shown(invite)), next: page.next };
  }

  create(organizationId: string, email: string, role: Role, by: string, actor: Actor): Promise<ShownInvite> {
    const { invites, memberships, users, audit } = this.tables;
    return this.store.transaction(() => {
      checkInviting(memberships.get(organizationId, by)?.role, role);
      const known = users.withEmail(email);
      if (known !== undefined && memberships.get(organizationId, known.id) !== undefined) throw invitedAlready();
      const made = invites.create(organizationId, email, role, by);
      if (made === null) throw tooManyInvites();
      void audit.note(organizationId, actor, 'invite.created', made.id, { email, role });
      return invites.shown(made);
    });
  }

  revoke(organizationId: string, id: string, by: string, actor: Actor): Promise<void> {
    const { invites, memberships, audit } = this.tables;
    return this.store.transaction(() => {
      const invite = id.length > 64 ? undefined : invites.get(organizationId, id);
      if (invite === undefined) throw noSuchInvite();
      if (invites.state(invite) !== 'pending') return;
      checkInviting(memberships.get(organizationId, by)?.role, invite.role);
      invites.revoke(invite);
      void audit.note(organizationId, actor, 'invite.revoked', id, { email: invite.email });
    });
  }

  async ofLink(token: string): Promise<{ invite: Invite; organization: { id: string; name: string } }> {
    const invite = this.tables.invites.ofToken(token);
    const { id, name } = this.#organization(invite);
    return { invite, organization: { id, name } };
  }

  accept(token: string, user: User, actor: Actor): Promise<OrganizationView> {
    const { invites, memberships, users, settings, audit } = this.tables;
    return this.store.transaction(() => {
      const invite = invites.ofToken(token);
      if (invite.email !== knownPerson(users.get(user.id)).email) throw inviteOfAnother();
      const organization = this.#organization(invite);
      if (organization.status === 'suspended')
        throw apiError('organization_suspended', 'The organization is suspended.');
      checkMembers(memberships.count(organization.id));
      checkBelonging(memberships.ofUser(user.id).length);
      invites.accept(invite);
      // If the user has joined in another way in the meantime, the current role is kept.
      if (memberships.get(organization.id, user.id) === undefined) {
        memberships.put(organization.id, user.id, invite.role);
        void audit.note(organization.id, actor, 'member.joined', user.id, { role: invite.role, email: user.email });
      }
      return { ...organization, settings: settings.get(organization.id) };
    });
  }

  #organization({ organizationId }: Invite): Organization {
    const organization = this.tables.organizations.get(organizationId);
    if (organization === undefined) throw organizationGone();
    return organization;
  }
}
