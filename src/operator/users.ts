// Operators and users: locking, and who else is an operator. Nobody locks or demotes themselves, and one
// operator who can sign in stays.

import { z } from 'zod';
import type { User } from '../accounts/users.js';
import { userObject } from '../dashboard/api/objects.js';
import { readPage } from '../dashboard/api/paging.js';
import type { ListPage, OperatorUser, OperatorUserPatch } from '../wire/dashboard.js';
import { apiError } from '../errors.js';
import type { Route } from '../http/exchange.js';
import type { OperatorGuard } from './operator-guard.js';
import type { OperatorDeps } from './deps.js';

const patchBody = z.object({ locked: z.boolean().nullish(), operator: z.boolean().nullish() }) satisfies z.ZodType<{ [K in keyof OperatorUserPatch]: unknown }>;

const PAGE = 256;

export function userRoutes(guard: OperatorGuard, deps: Pick<OperatorDeps, 'directory' | 'store'>): Route[] {
  const { directory: { users, sessions, audit }, store } = deps;
  return [
    guard({
      method: 'GET', path: '/users',
      serve: ({ exchange }) => {
        const { limit, after } = readPage(exchange.query);
        const found = users.list(limit + 1, after);
        const data = found.slice(0, limit);
        const more = found.length > limit;
        const list: ListPage<OperatorUser> = { object: 'list', data: data.map((user) => describe(user, deps)), has_more: more, next: more ? data.at(-1)?.id ?? null : null };
        exchange.json(200, list);
      },
    }),

    guard({
      method: 'PATCH', path: '/users/:user', body: patchBody,
      serve: async ({ exchange, actor, userId, body }) => {
        const id = exchange.params['user'] as string;
        const changed = await store.transaction(() => {
          const user = id.length > 64 ? undefined : users.get(id);
          if (user === undefined) throw apiError('resource_not_found', 'There is no such user.', 'user');
          const locked = body.locked ?? user.locked;
          const operator = body.operator ?? user.operator;
          if (locked === user.locked && operator === user.operator) return user;
          if (id === userId) throw apiError('invalid_value', 'Nobody can lock themselves or take their own operator right away. Another operator can.', locked === user.locked ? 'operator' : 'locked');
          if (user.operator && !user.locked && (locked || !operator) && !otherOperator(id)) {
            throw apiError('invalid_value', 'This is the last operator who can sign in.', locked === user.locked ? 'operator' : 'locked');
          }
          const next = users.change(id, { locked, operator }) as User;
          if (locked !== user.locked) audit.note(null, actor, locked ? 'user.locked' : 'user.unlocked', id, { email: user.email });
          if (operator !== user.operator) audit.note(null, actor, operator ? 'user.operator_granted' : 'user.operator_withdrawn', id, { email: user.email });
          if (locked && !user.locked) sessions.endAll(id);
          return next;
        });
        exchange.json(200, describe(changed, deps));
      },
    }),
  ];

  /** Within a transaction: whether anybody else is an operator and may sign in. */
  function otherOperator(id: string): boolean {
    for (let after: string | null = null; ;) {
      const page: User[] = users.list(PAGE, after);
      if (page.some((user) => user.id !== id && user.operator && !user.locked)) return true;
      if (page.length < PAGE) return false;
      after = page.at(-1)?.id ?? null;
    }
  }
}

function describe(user: User, { directory }: Pick<OperatorDeps, 'directory'>): OperatorUser {
  const organizations = directory.memberships.ofUser(user.id).flatMap(({ organizationId, role }) => {
    const organization = directory.organizations.get(organizationId);
    return organization === undefined ? [] : [{ id: organization.id, name: organization.name, role }];
  });
  return { ...userObject(user), locked: user.locked, organizations };
}
