// …/service-accounts: members of an organization that cannot sign in and only own API keys.

import { z } from 'zod';
import type { ListedServiceAccount, ServiceAccounts } from '../../accounts/service-accounts.js';
import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import type { ServiceAccountObject } from '../../shared/wire/organizations.js';
import { nameField } from './fields.js';
import { pageQueryOf, readPage } from './paging.js';
import type { Guard } from './guard.js';

const LIST = '/organizations/:org/service-accounts';
const ONE = `${LIST}/:id`;

const roleField = z.enum(['admin', 'developer', 'viewer']);

export interface ServiceAccountDeps {
  guard: Guard;
  serviceAccounts: ServiceAccounts;
}

export function serviceAccountRoutes({ guard, serviceAccounts }: ServiceAccountDeps): Route[] {
  return [
    guard.member('viewer', {
      method: 'GET',
      path: LIST,
      handler: async ({ exchange, organization }) => {
        const all = (await serviceAccounts.list(organization.id)).map(serviceAccountObject);
        exchange.json(
          200,
          pageQueryOf(all, readPage(exchange.query), ({ id }) => id),
        );
      },
    }),

    guard.member('viewer', {
      method: 'GET',
      path: ONE,
      handler: async ({ exchange, organization }) => {
        const account = await serviceAccounts.get(organization.id, exchange.params['id'] as string);
        if (account === null) throw apiError('resource_not_found', 'Service account not found.', 'id');
        exchange.json(200, serviceAccountObject(account));
      },
    }),

    guard.member('admin', {
      method: 'POST',
      path: LIST,
      body: z.object({ name: nameField, role: roleField.nullish() }),
      handler: async ({ exchange, organization, user, actor, body: { name, role } }) => {
        const fields = { name, role: role ?? 'developer' };
        exchange.json(200, serviceAccountObject(await serviceAccounts.create(organization.id, fields, user.id, actor)));
      },
    }),

    guard.member('admin', {
      method: 'PATCH',
      path: ONE,
      body: z.object({ name: nameField.nullish(), role: roleField.nullish(), disabled: z.boolean().nullish() }),
      handler: async ({ exchange, organization, user, actor, body }) => {
        const change = {
          name: body.name ?? undefined,
          role: body.role ?? undefined,
          disabled: body.disabled ?? undefined,
        };
        const id = exchange.params['id'] as string;
        exchange.json(
          200,
          serviceAccountObject(await serviceAccounts.change(organization.id, id, change, user.id, actor)),
        );
      },
    }),

    guard.member('admin', {
      method: 'DELETE',
      path: ONE,
      handler: async ({ exchange, organization, user, actor }) => {
        const id = exchange.params['id'] as string;
        exchange.json(200, { revoked_keys: await serviceAccounts.delete(organization.id, id, user.id, actor) });
      },
    }),
  ];
}

export const serviceAccountObject = ({
  id,
  organizationId,
  name,
  role,
  disabled,
  createdBy,
  createdAt,
  activeKeys,
}: ListedServiceAccount): ServiceAccountObject => ({
  id,
  organization_id: organizationId,
  name,
  role,
  disabled,
  created_by: createdBy,
  created_at: createdAt,
  active_keys: activeKeys,
});
