// Who belongs to an organization. Only owners make owners, or unmake them, and one owner always stays.

import { z } from 'zod';
import { hasRole } from '../../accounts/memberships.js';
import type { Membership } from '../../accounts/memberships.js';
import { apiError } from '../../errors.js';
import type { Route } from '../../http/exchange.js';
import type { MemberObject, Role } from '../../wire/dashboard.js';
import { roleField } from './fields.js';
import { pageOf, readPage } from './paging.js';
import type { DashboardDeps } from './deps.js';

export function memberRoutes({ guard, directory }: Pick<DashboardDeps, 'guard' | 'directory'>): Route[] {
  const { store, users, memberships, sessions, audit } = directory;

  const shown = ({ organizationId, userId, role, createdAt }: Membership): MemberObject => {
    const user = users.get(userId);
    return {
      organization_id: organizationId, user_id: userId, role, created_at: createdAt,
      email: user?.email ?? '', name: user?.name ?? '', last_login_at: user?.lastLoginAt ?? null,
    };
  };

  /** Within a transaction: as it is now, not as it was when the request came. Throws ApiError. */
  const target = (organizationId: string, userId: string): Membership => {
    const membership = userId.length > 64 ? undefined : memberships.get(organizationId, userId);
    if (membership === undefined) throw apiError('resource_not_found', 'There is no such member.', 'user');
    return membership;
  };
  const needsOwner = (role: Role | undefined, ...touched: Role[]): void => {
    if (touched.includes('owner') && role !== 'owner') throw apiError('role_not_allowed', 'Only owners may make, change or remove owners.');
  };
  const keepsOwner = (organizationId: string, userId: string, param: string | null): void => {
    if (memberships.isLastOwner(organizationId, userId)) throw apiError('invalid_value', 'The last owner of an organization stays one. Make somebody else an owner first.', param);
  };

  return [
    guard.member('viewer', {
      method: 'GET', path: '/organizations/:org/members',
      serve: ({ exchange, organization }) => {
        const page = pageOf(memberships.ofOrganization(organization.id), readPage(exchange.query), ({ userId }) => userId);
        exchange.json(200, { ...page, data: page.data.map(shown) });
      },
    }),

    guard.member('admin', {
      method: 'PATCH', path: '/organizations/:org/members/:user', body: z.object({ role: roleField }),
      serve: async ({ exchange, organization: { id }, user, actor, body: { role } }) => {
        const changed = await store.transaction(() => {
          const before = target(id, exchange.params['user'] as string);
          needsOwner(memberships.get(id, user.id)?.role, role, before.role);
          if (before.role === role) return before;
          if (role !== 'owner') keepsOwner(id, before.userId, 'role');
          audit.note(id, actor, 'member.role_changed', before.userId, { from: before.role, to: role });
          return memberships.put(id, before.userId, role);
        });
        exchange.json(200, shown(changed));
      },
    }),

    // Leaving is everybody's own business; removing somebody else is an admin's.
    guard.member('viewer', {
      method: 'DELETE', path: '/organizations/:org/members/:user',
      serve: async ({ exchange, organization: { id }, user, actor }) => {
        const leaving = exchange.params['user'] === user.id;
        await store.transaction(() => {
          const own = memberships.get(id, user.id)?.role;
          if (!leaving && (own === undefined || !hasRole(own, 'admin'))) throw apiError('role_not_allowed', 'Removing a member needs the role admin.');
          const member = target(id, exchange.params['user'] as string);
          if (!leaving) needsOwner(own, member.role);
          keepsOwner(id, member.userId, 'user');
          memberships.remove(id, member.userId);
          if (!leaving) sessions.endAll(member.userId);
          audit.note(id, actor, leaving ? 'member.left' : 'member.removed', member.userId, { role: member.role, email: users.get(member.userId)?.email ?? null });
        });
        exchange.json(200, {});
      },
    }),
  ];
}
