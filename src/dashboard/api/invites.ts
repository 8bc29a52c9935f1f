// Invitations: made and taken back by admins, accepted by whoever has the link and the address it is for.

import { z } from 'zod';
import type { Invite } from '../../accounts/invites.js';
import { MAX_INVITES } from '../../accounts/invites.js';
import { MAX_MEMBERS, MAX_ORGANIZATIONS_OF_USER } from '../../accounts/memberships.js';
import { apiError } from '../../errors.js';
import type { Exchange, Route } from '../../http/exchange.js';
import type { InviteObject, InvitePreview } from '../../wire/dashboard.js';
import { emailField, roleField } from './fields.js';
import { inviteObject, organizationObject } from './objects.js';
import { pageOf, readPage } from './paging.js';
import type { DashboardDeps } from './deps.js';

export function inviteRoutes({ guard, directory, origin, letters, organizationLimits }: Pick<DashboardDeps, 'guard' | 'directory' | 'origin' | 'letters' | 'organizationLimits'>): Route[] {
  const { store, users, organizations, memberships, invites, attempts, audit } = directory;
  const shown = (exchange: Exchange, invite: Invite): InviteObject => inviteObject(invite, invites, origin.base(exchange));
  const mayInvite = (own: string | undefined, role: string): void => {
    if (role === 'owner' && own !== 'owner') throw apiError('role_not_allowed', 'Only owners may invite owners or take such an invitation back.');
  };

  return [
    guard.member('admin', {
      method: 'GET', path: '/organizations/:org/invites',
      serve: ({ exchange, organization }) => {
        const page = pageOf(invites.list(organization.id), readPage(exchange.query), ({ id }) => id);
        exchange.json(200, { ...page, data: page.data.map((invite) => shown(exchange, invite)) });
      },
    }),

    guard.member('admin', {
      method: 'POST', path: '/organizations/:org/invites', body: z.object({ email: emailField, role: roleField }),
      serve: async ({ exchange, organization, user, actor, body: { email, role } }) => {
        await attempts.count('invite', [user.id]);
        const invite = await store.transaction(() => {
          mayInvite(memberships.get(organization.id, user.id)?.role, role);
          const known = users.withEmail(email);
          if (known !== undefined && memberships.get(organization.id, known.id) !== undefined) throw apiError('invalid_value', 'Who has this address is a member already.', 'email');
          const made = invites.create(organization.id, email, role);
          if (made === null) throw apiError('too_many_entries', `An organization may have at most ${MAX_INVITES} invitations, those of the last 30 days included.`);
          audit.note(organization.id, actor, 'invite.created', made.id, { email, role });
          return made;
        });
        exchange.json(200, shown(exchange, invite));
        // The link can be seen by whoever invited: a mail too many is not sent, without a word.
        if (letters.enabled) attempts.count('mail', [`invitation ${email}`]).then(() => letters.invite(invite, user, organization.name), () => undefined);
      },
    }),

    guard.member('admin', {
      method: 'DELETE', path: '/organizations/:org/invites/:id',
      serve: async ({ exchange, organization, user, actor }) => {
        const id = exchange.params['id'] as string;
        await store.transaction(() => {
          const invite = id.length > 64 ? undefined : invites.get(organization.id, id);
          if (invite === undefined) throw apiError('resource_not_found', 'There is no such invitation.', 'id');
          if (invites.state(invite) !== 'pending') return;
          mayInvite(memberships.get(organization.id, user.id)?.role, invite.role);
          invites.revoke(invite);
          audit.note(organization.id, actor, 'invite.revoked', id, { email: invite.email });
        });
        exchange.json(200, {});
      },
    }),

    guard.open({
      method: 'GET', path: '/invites/:token',
      serve: ({ exchange }) => {
        const { organizationId, email, role, expiresAt } = invites.ofToken(exchange.params['token'] as string);
        const organization = organizations.get(organizationId);
        if (organization === undefined) throw apiError('invalid_token', 'The organization of this invitation is gone.', 'invite');
        const preview: InvitePreview = { organization: { id: organization.id, name: organization.name }, email, role, expires_at: new Date(expiresAt).toISOString() };
        exchange.json(200, preview);
      },
    }),

    guard.user({
      method: 'POST', path: '/invites/:token/accept',
      serve: async ({ exchange, user, actor }) => {
        const joined = await store.transaction(() => {
          const invite = invites.ofToken(exchange.params['token'] as string);
          if (invite.email !== user.email) throw apiError('invalid_value', 'This invitation is for another e-mail address than the one you are signed in with.', 'invite');
          const organization = organizations.get(invite.organizationId);
          if (organization === undefined) throw apiError('invalid_token', 'The organization of this invitation is gone.', 'invite');
          if (organization.status === 'suspended') throw apiError('organization_suspended', 'The organization is suspended.');
          if (memberships.count(organization.id) >= MAX_MEMBERS) throw apiError('too_many_entries', `An organization may have at most ${MAX_MEMBERS} members.`);
          if (memberships.ofUser(user.id).length >= MAX_ORGANIZATIONS_OF_USER) throw apiError('too_many_entries', `Nobody may belong to more than ${MAX_ORGANIZATIONS_OF_USER} organizations.`);
          invites.accept(invite);
          // Who joined meanwhile by another way keeps the role they have.
          if (memberships.get(organization.id, user.id) === undefined) {
            memberships.put(organization.id, user.id, invite.role);
            audit.note(organization.id, actor, 'member.joined', user.id, { role: invite.role, email: user.email });
          }
          return organization;
        });
        exchange.json(200, { organization: organizationObject(joined, organizationLimits(joined)) });
      },
    }),
  ];
}
