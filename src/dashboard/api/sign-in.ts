// Signing in and out, one's own profile, and the sessions one has.

import { z } from 'zod';
import { addressGroup } from '../../accounts/attempts.js';
import { hashPassword, isOutdated, verifyPassword } from '../../accounts/passwords.js';
import { csrfToken } from '../../accounts/sessions.js';
import { normalEmail } from '../../accounts/users.js';
import type { User } from '../../accounts/users.js';
import { apiError } from '../../errors.js';
import type { Route } from '../../http/exchange.js';
import type { Me } from '../../wire/dashboard.js';
import { clearSessionCookie, sessionCookie, setSessionCookie } from './cookie.js';
import { nameField, passwordField } from './fields.js';
import { sessionObject, userObject } from './objects.js';
import { pageOf, readPage } from './paging.js';
import type { DashboardDeps } from './deps.js';

// An address that cannot be one is nobody's, as any other that nobody has.
const loginBody = z.object({ email: z.string().min(1).max(1_000), password: passwordField });

export function signInRoutes({ guard, directory, origin }: Pick<DashboardDeps, 'guard' | 'directory' | 'origin'>): Route[] {
  const { store, users, sessions, attempts, memberships, organizations, audit } = directory;

  const me = (user: User, secret: string): Me => ({
    user: userObject(user), csrf_token: csrfToken(secret),
    organizations: memberships.ofUser(user.id).flatMap(({ organizationId, role }) => {
      const organization = organizations.get(organizationId);
      return organization === undefined ? [] : [{ id: organization.id, name: organization.name, status: organization.status, role }];
    }),
  });

  return [
    guard.open({
      method: 'POST', path: '/login', body: loginBody,
      serve: async ({ exchange, body }) => {
        const client = { ip: exchange.remoteAddress, userAgent: exchange.header('user-agent') };
        const email = normalEmail(body.email);
        const address = addressGroup(client.ip);
        const before = sessionCookie(exchange);
        const wrong = apiError('invalid_credentials', 'The e-mail address or the password is wrong.');
        // Shares of the address and of the e-mail are apart, and both are taken before the password is looked at.
        await attempts.count('login', [`address ${address}`, `email ${email}`]);
        const known = users.withEmail(email);
        let right = false;
        let upgraded: string | null = null;
        try {
          right = await verifyPassword(body.password, known?.passwordHash ?? null);
          if (right && known !== undefined && isOutdated(known.passwordHash)) upgraded = await hashPassword(body.password);
        } catch (error) {
          await store.transaction(() => forgive(address, email));
          throw error;
        }
        if (!right || known === undefined) throw wrong;
        const { user, secret } = await store.transaction(() => {
          const current = users.get(known.id);
          if (current === undefined || current.passwordHash !== known.passwordHash) throw wrong;   // changed meanwhile
          if (current.locked) throw apiError('user_locked', 'This account is locked. Ask the operator of this server.');
          attempts.forget('login', `email ${email}`);
          attempts.forgive('login', `address ${address}`);
          const old = before === null ? undefined : sessions.find(before);
          if (old !== undefined) sessions.end(old.userId, old.id);
          const changed = users.change(known.id, { lastLoginAt: new Date().toISOString(), ...(upgraded === null ? {} : { passwordHash: upgraded }) });
          return { user: changed ?? current, secret: sessions.begin(known.id, client.ip, client.userAgent).secret };
        });
        setSessionCookie(exchange, origin, secret);
        exchange.json(200, { user: userObject(user) });
      },
    }),

    guard.user({
      method: 'POST', path: '/logout',
      serve: async ({ exchange, user, sessionId }) => {
        await store.transaction(() => sessions.end(user.id, sessionId));
        clearSessionCookie(exchange, origin);
        exchange.json(200, {});
      },
    }),

    guard.user({
      method: 'GET', path: '/me',
      serve: ({ exchange, user }) => exchange.json(200, me(user, sessionCookie(exchange) as string)),
    }),

    guard.user({
      method: 'PATCH', path: '/me', body: z.object({ name: nameField.nullish() }),
      serve: async ({ exchange, user, actor, body }) => {
        const { name } = body;
        const secret = sessionCookie(exchange) as string;
        const same = name === undefined || name === null || name === user.name;
        if (!same) await attempts.count('name', [user.id]);   // each leaves an entry in the server's log, which is bounded
        const changed = same ? user : await store.transaction(() => {
          audit.note(null, actor, 'user.renamed', user.id, { from: user.name, to: name });
          return users.change(user.id, { name });
        });
        exchange.json(200, me(changed ?? user, secret));
      },
    }),

    guard.user({
      method: 'GET', path: '/sessions',
      serve: ({ exchange, user, sessionId }) => {
        const all = sessions.list(user.id).map((one) => sessionObject(one, sessions, sessionId));
        exchange.json(200, pageOf(all, readPage(exchange.query), ({ id }) => id));
      },
    }),

    guard.user({
      method: 'DELETE', path: '/sessions/:id',
      serve: async ({ exchange, user, sessionId, actor }) => {
        const id = exchange.params['id'] as string;
        const found = await store.transaction(() => {
          const ended = sessions.end(user.id, id);
          if (ended) audit.note(null, actor, 'session.revoked', id);
          return ended;
        });
        if (!found) throw apiError('resource_not_found', 'There is no such session.', 'id');
        if (id === sessionId) clearSessionCookie(exchange, origin);
        exchange.json(200, {});
      },
    }),
  ];

  function forgive(address: string, email: string): void {
    attempts.forgive('login', `address ${address}`);
    attempts.forgive('login', `email ${email}`);
  }
}
