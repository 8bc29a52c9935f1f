// One's organizations: listed, made, named, deleted.

import { z } from 'zod';
import { deleteOrganization } from '../../accounts/delete-organization.js';
import type { Organization } from '../../accounts/keys.js';
import { MAX_ORGANIZATIONS_OF_USER } from '../../accounts/memberships.js';
import type { User } from '../../accounts/users.js';
import { apiError } from '../../errors.js';
import type { Route } from '../../http/exchange.js';
import type { OrganizationObject } from '../../wire/dashboard.js';
import { nameField } from './fields.js';
import { organizationObject } from './objects.js';
import { pageOf, readPage } from './paging.js';
import type { DashboardDeps } from './deps.js';

export function organizationRoutes({ config, guard, directory, accounts, responses, telemetry, organizationLimits }: Pick<DashboardDeps, 'config' | 'guard' | 'directory' | 'accounts' | 'responses' | 'telemetry' | 'organizationLimits'>): Route[] {
  const { store, organizations, memberships, attempts, audit } = directory;
  const shown = (organization: Organization): OrganizationObject => organizationObject(organization, organizationLimits(organization));
  return [
    guard.user({
      method: 'GET', path: '/organizations',
      serve: ({ exchange, user }) => {
        const all = memberships.ofUser(user.id).map(({ organizationId }) => organizations.get(organizationId)).filter((one) => one !== undefined);
        const page = pageOf(all, readPage(exchange.query), ({ id }) => id);
        exchange.json(200, { ...page, data: page.data.map(shown) });
      },
    }),

    guard.user({
      method: 'POST', path: '/organizations', body: z.object({ name: nameField }),
      serve: async ({ exchange, user, actor, body }) => {
        await attempts.count('organization', [user.id]);   // those deleted again leave a row
        const made = await store.transaction(() => {
          if (memberships.ofUser(user.id).length >= MAX_ORGANIZATIONS_OF_USER) {
            throw apiError('too_many_entries', `Nobody may belong to more than ${MAX_ORGANIZATIONS_OF_USER} organizations.`);
          }
          checkOwned(user);
          const organization = organizations.create(body.name);
          memberships.put(organization.id, user.id, 'owner');
          audit.note(organization.id, actor, 'organization.created', organization.id, { name: organization.name });
          return organization;
        });
        exchange.json(200, shown(made));
      },
    }),

    guard.member('viewer', {
      method: 'GET', path: '/organizations/:org',
      serve: ({ exchange, organization }) => exchange.json(200, shown(organization)),
    }),

    guard.member('admin', {
      method: 'PATCH', path: '/organizations/:org', body: z.object({ name: nameField.nullish() }),
      serve: async ({ exchange, organization, actor, body }) => {
        const { name } = body;
        const changed = name === undefined || name === null || name === organization.name ? organization : await store.transaction(() => {
          audit.note(organization.id, actor, 'organization.renamed', organization.id, { from: organization.name, to: name });
          return organizations.change(organization.id, { name });
        });
        if (changed === undefined) throw apiError('resource_not_found', 'There is no such organization.', 'org');
        exchange.json(200, shown(changed));
      },
    }),

    guard.member('owner', {
      method: 'DELETE', path: '/organizations/:org',
      serve: async ({ exchange, organization, actor }) => {
        const { erased } = await deleteOrganization(directory, accounts, responses, organization.id, actor);
        erased.catch((err: unknown) => telemetry.log.error({ err }, 'erasing a deleted organization failed; it is tried again'));
        exchange.json(200, {});
      },
    }),
  ];

  /** A new organization has limits of its own: nobody gets round theirs, or out of a suspension, by making some. */
  function checkOwned(user: User): void {
    if (user.operator) return;
    const owned = memberships.ofUser(user.id).filter(({ role }) => role === 'owner').map(({ organizationId }) => organizations.get(organizationId)).filter((one) => one !== undefined);
    if (owned.some(({ status }) => status === 'suspended')) throw apiError('organization_suspended', 'Whose organization is suspended cannot make another.');
    const most = config.accounts.organizations_per_user;
    if (owned.length >= most) throw apiError('too_many_entries', `Nobody may own more than ${most} organizations here; ask the operator of this server.`);
  }
}
