// The user's organizations: list, create, rename, delete.

import { z } from 'zod';
import { deleteOrganization } from '../../accounts/delete-organization.js';
import { mayOpenFrom } from '../../accounts/organizations.js';
import type { OrganizationView, Organizations } from '../../accounts/organizations.js';
import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import type { OrganizationObject } from '../../shared/wire/organizations.js';
import type { Attempts } from '../../accounts/attempts.js';
import type { Config } from '../../config/settings.js';
import type { Log } from '../../telemetry/types.js';
import type { Members } from '../../accounts/members.js';
import type { OrganizationDataOwner } from '../../accounts/delete-organization.js';
import type { RequestLog } from '../../usage/requests/request-log.js';
import { nameField } from './fields.js';
import { organizationObject } from './objects.js';
import { pageQueryOf, readPage } from './paging.js';
import type { Guard } from './guard.js';
import type { OrganizationLimits } from './objects.js';

export interface OrganizationDeps {
  guard: Guard;
  organizations: Organizations;
  members: Members;
  attempts: Attempts;
  /** Data that is erased when an organization is deleted. */
  organizationData: OrganizationDataOwner;
  requestLog: Pick<RequestLog, 'eraseTexts'>;
  organizationLimits: OrganizationLimits;
  config: Pick<Config, 'accounts'>;
  log: Log;
}

export function organizationRoutes({
  guard,
  organizations,
  members,
  attempts,
  organizationData,
  requestLog,
  organizationLimits,
  config,
  log,
}: OrganizationDeps): Route[] {
  const shown = (organization: OrganizationView): OrganizationObject =>
    organizationObject(organization, organizationLimits(organization));
  return [
    guard.user({
      method: 'GET',
      path: '/organizations',
      handler: async ({ exchange, user }) => {
        // GET /me also lists organizations that cannot be opened from this address.
        const all = (await members.organizationsOf(user.id))
          .map(({ organization }) => organization)
          .filter(({ settings }) => mayOpenFrom(settings, exchange.remoteAddress));
        const page = pageQueryOf(all, readPage(exchange.query), ({ id }) => id);
        exchange.json(200, { ...page, data: page.data.map(shown) });
      },
    }),

    guard.user({
      method: 'POST',
      path: '/organizations',
      body: z.object({ name: nameField }),
      handler: async ({ exchange, user, actor, body }) => {
        // counted like sign-in attempts, because even a deleted organization leaves a row in the database
        await attempts.count('organization', [user.id]);
        exchange.json(
          200,
          shown(await organizations.create(body.name, user, config.accounts.organizations_per_user, actor)),
        );
      },
    }),

    guard.member('viewer', {
      method: 'GET',
      path: '/organizations/:org',
      handler: ({ exchange, organization }) => exchange.json(200, shown(organization)),
    }),

    guard.member('admin', {
      method: 'PATCH',
      path: '/organizations/:org',
      body: z.object({ name: nameField.nullish(), request_text: z.boolean().nullish() }),
      handler: async ({ exchange, organization, actor, body }) => {
        const { name } = body;
        const keepsText = body.request_text ?? undefined;
        if (keepsText !== undefined) {
          await organizations.change(organization.id, { keepsText }, actor);
          if (!keepsText) await requestLog.eraseTexts(organization.id);
        }
        const changed =
          name === undefined || name === null || name === organization.name
            ? await organizations.get(organization.id)
            : await organizations.rename(organization.id, name, actor);
        if (changed === null) throw apiError('resource_not_found', 'Organization not found.', 'org');
        exchange.json(200, shown(changed));
      },
    }),

    guard.member('owner', {
      method: 'DELETE',
      path: '/organizations/:org',
      handler: async ({ exchange, organization, actor }) => {
        const { erased } = await deleteOrganization(organizations, organizationData, organization.id, actor);
        erased.catch((err: unknown) => log.error({ err }, 'erasing a deleted organization failed; will retry'));
        exchange.json(200, {});
      },
    }),
  ];
}
