// Operator routes for users: lock accounts, grant operator rights. Operators cannot lock or demote themselves, and at
// least one operator who can sign in must remain.

import { z } from 'zod';
import { apiError } from '../../shared/errors.js';
import type { ListedUser, Users } from '../../accounts/users.js';
import type { OperatorUser, OperatorUserPatch } from '../../shared/wire/users.js';
import type { Route } from '../../http/exchange.js';
import type { SecondFactors } from '../../accounts/second-factors.js';
import { userObject } from '../api/objects.js';
import { listPage, readPage } from '../api/paging.js';
import type { OperatorGuard } from './operator-guard.js';

const patchBody = z.object({ locked: z.boolean().nullish(), operator: z.boolean().nullish() }) satisfies z.ZodType<{
  [K in keyof OperatorUserPatch]: unknown;
}>;

export interface UserDeps {
  users: Users;
  secondFactors: Pick<SecondFactors, 'reset'>;
}

export function userRoutes(guard: OperatorGuard, { users, secondFactors }: UserDeps): Route[] {
  return [
    guard({
      method: 'GET',
      path: '/users',
      handler: async ({ exchange }) => {
        const { limit, after } = readPage(exchange.query);
        exchange.json(200, listPage(await users.page(limit, after), describe));
      },
    }),

    guard({
      method: 'PATCH',
      path: '/users/:user',
      body: patchBody,
      handler: async ({ exchange, actor, userId, body }) => {
        const rights = { locked: body.locked ?? undefined, operator: body.operator ?? undefined };
        exchange.json(200, describe(await users.change(exchange.params['user'] as string, rights, userId, actor)));
      },
    }),

    // Turns off two-factor authentication for users who have lost both their device and their recovery codes.
    guard({
      method: 'DELETE',
      path: '/users/:user/second-factor',
      handler: async ({ exchange, actor, userId }) => {
        const id = exchange.params['user'] as string;
        if (id === userId)
          throw apiError(
            'invalid_value',
            'You cannot reset your own two-factor authentication. Turn it off in your profile, or ask another operator.',
            'user',
          );
        if (!(await secondFactors.reset(id, actor)))
          throw apiError('resource_not_found', 'User not found, or two-factor authentication is off.', 'user');
        exchange.json(200, {});
      },
    }),
  ];
}

function describe({ user, organizations }: ListedUser): OperatorUser {
  return { ...userObject(user), locked: user.locked, organizations };
}
