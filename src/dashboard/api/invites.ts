// Invitations. Admins create and revoke them. An invitation is accepted by opening its link and signing in or signing
// up with the invited email address.

import { z } from 'zod';
import type { Route } from '../../http/exchange.js';
import type { InvitePreview } from '../../shared/wire/organizations.js';
import type { Attempts } from '../../accounts/attempts.js';
import type { Invites } from '../../accounts/invites.js';
import type { DashboardOrigin } from '../origin.js';
import { emailField, roleField } from './fields.js';
import { inviteObject, organizationObject } from './objects.js';
import { listPage, readPage } from './paging.js';
import { readWhole } from './read-whole.js';
import type { AccountMailer } from './account-mailer.js';
import type { Guard } from './guard.js';
import type { OrganizationLimits } from './objects.js';

export interface InviteDeps {
  guard: Guard;
  invites: Invites;
  attempts: Attempts;
  origin: DashboardOrigin;
  mailer: AccountMailer;
  organizationLimits: OrganizationLimits;
}

export function inviteRoutes({ guard, invites, attempts, origin, mailer, organizationLimits }: InviteDeps): Route[] {
  return [
    guard.member('admin', {
      method: 'GET',
      path: '/organizations/:org/invites',
      handler: async ({ exchange, organization }) => {
        const { limit, after } = readPage(exchange.query);
        const page = await readWhole(exchange, () => invites.page(organization.id, limit, after));
        exchange.json(
          200,
          listPage(page, (invite) => inviteObject(invite, origin.base(exchange))),
        );
      },
    }),

    guard.member('admin', {
      method: 'POST',
      path: '/organizations/:org/invites',
      body: z.object({ email: emailField, role: roleField }),
      handler: async ({ exchange, organization, user, actor, body: { email, role } }) => {
        await attempts.count('invite', [user.id]);
        const invite = await invites.create(organization.id, email, role, user.id, actor);
        exchange.json(200, inviteObject(invite, origin.base(exchange)));
        // The inviter sees the link anyway, so an email over the rate limit is skipped silently.
        if (mailer.enabled)
          attempts.count('mail', [`invitation ${email}`]).then(
            () => mailer.invite(invite, user, organization.name),
            () => undefined,
          );
      },
    }),

    guard.member('admin', {
      method: 'DELETE',
      path: '/organizations/:org/invites/:id',
      handler: async ({ exchange, organization, user, actor }) => {
        await invites.revoke(organization.id, exchange.params['id'] as string, user.id, actor);
        exchange.json(200, {});
      },
    }),

    guard.open({
      method: 'GET',
      path: '/invites/:token',
      handler: async ({ exchange }) => {
        const {
          invite: { email, role, expiresAt },
          organization,
        } = await invites.ofLink(exchange.params['token'] as string);
        const preview: InvitePreview = { organization, email, role, expires_at: new Date(expiresAt).toISOString() };
        exchange.json(200, preview);
      },
    }),

    guard.user({
      method: 'POST',
      path: '/invites/:token/accept',
      handler: async ({ exchange, user, actor }) => {
        const joined = await invites.accept(exchange.params['token'] as string, user, actor);
        exchange.json(200, { organization: organizationObject(joined, organizationLimits(joined)) });
      },
    }),
  ];
}
