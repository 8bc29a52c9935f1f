// Members of an organization.

import { z } from 'zod';
import type { Member, Members } from '../../accounts/members.js';
import type { Route } from '../../http/exchange.js';
import type { MemberObject } from '../../shared/wire/organizations.js';
import { roleField } from './fields.js';
import { listPage, readPage } from './paging.js';
import { readWhole } from './read-whole.js';
import type { Guard } from './guard.js';

export interface MemberDeps {
  guard: Guard;
  members: Members;
}

export function memberRoutes({ guard, members }: MemberDeps): Route[] {
  return [
    guard.member('viewer', {
      method: 'GET',
      path: '/organizations/:org/members',
      handler: async ({ exchange, organization }) => {
        const { limit, after } = readPage(exchange.query);
        exchange.json(
          200,
          listPage(await readWhole(exchange, () => members.page(organization.id, limit, after)), memberObject),
        );
      },
    }),

    guard.member('admin', {
      method: 'PATCH',
      path: '/organizations/:org/members/:user',
      body: z.object({ role: roleField }),
      handler: async ({ exchange, organization: { id }, user, actor, body: { role } }) => {
        exchange.json(
          200,
          memberObject(await members.changeRole(id, exchange.params['user'] as string, role, user.id, actor)),
        );
      },
    }),

    // Any member can leave. Removing another member requires the admin role.
    guard.member('viewer', {
      method: 'DELETE',
      path: '/organizations/:org/members/:user',
      handler: async ({ exchange, organization: { id }, user, actor }) => {
        await members.remove(id, exchange.params['user'] as string, user.id, actor);
        exchange.json(200, {});
      },
    }),
  ];
}

export function memberObject({
  organizationId,
  userId,
  role,
  createdAt,
  email,
  name,
  lastLoginAt,
}: Member): MemberObject {
  return {
    organization_id: organizationId,
    user_id: userId,
    role,
    created_at: createdAt,
    email,
    name,
    last_login_at: lastLoginAt,
  };
}
