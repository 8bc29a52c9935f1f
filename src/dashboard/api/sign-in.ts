// Sign-in and sign-out, the user's own profile, and their sessions.

import { z } from 'zod';
import { addressGroup } from '../../accounts/attempts.js';
import { hashPassword, isOutdated, verifyPassword } from '../../accounts/passwords.js';
import { csrfToken } from '../../accounts/sessions.js';
import { normalEmail } from '../../accounts/users.js';
import type { User } from '../../accounts/users.js';
import { mayOpenFrom } from '../../accounts/organizations.js';
import { plainAddress } from '../../shared/address-list.js';
import { apiError } from '../../shared/errors.js';
import type { Exchange, Route } from '../../http/exchange.js';
import type { LoginAnswer, Me } from '../../shared/wire/users.js';
import type { Attempts } from '../../accounts/attempts.js';
import type { Config } from '../../config/settings.js';
import type { Identities } from '../../accounts/identities.js';
import type { Members } from '../../accounts/members.js';
import type { MfaChallenges } from '../../accounts/mfa-challenges.js';
import type { SecondFactorCodes } from '../../accounts/second-factor-codes.js';
import type { SignIns } from '../../accounts/sign-ins.js';
import type { DashboardOrigin } from '../origin.js';
import { clearSessionCookie, sessionCookie, setSessionCookie } from './cookie.js';
import { codeField, nameField, passwordField } from './fields.js';
import { sessionObject, userObject } from './objects.js';
import { pageQueryOf, readPage } from './paging.js';
import type { Guard } from './guard.js';

// An invalid email address is accepted here and treated like an address without an account.
const loginBody = z.object({ email: z.string().min(1).max(1_000), password: passwordField });

export interface SignInDeps {
  guard: Guard;
  signIns: SignIns;
  attempts: Attempts;
  identities: Identities;
  members: Members;
  codes: SecondFactorCodes;
  tickets: MfaChallenges;
  origin: DashboardOrigin;
  config: Pick<Config, 'accounts'>;
}

export function signInRoutes({
  guard,
  signIns,
  attempts,
  identities,
  members,
  codes,
  tickets,
  origin,
  config,
}: SignInDeps): Route[] {
  const me = async (user: User, secret: string, address: string): Promise<Me> => ({
    user: userObject(user),
    second_factor_missing:
      user.operator && user.secondFactor !== true && config.accounts.operator_second_factor === 'required',
    oidc_linked: await identities.has(user.id),
    csrf_token: csrfToken(secret),
    address: plainAddress(address),
    organizations: (await members.organizationsOf(user.id)).map(
      ({ organization: { id, name, status, settings }, role }) => ({
        id,
        name,
        status,
        role,
        address_allowed: mayOpenFrom(settings, address),
      }),
    ),
  });

  const answer = (exchange: Exchange, body: LoginAnswer): void => exchange.json(200, body);

  const enter = (exchange: Exchange, begun: { user: User; cookie: string } | 'locked'): void => {
    if (begun === 'locked')
      throw apiError('user_locked', 'This account is locked. Contact the operator of this server.');
    setSessionCookie(exchange, origin, begun.cookie);
    answer(exchange, { user: userObject(begun.user) });
  };

  return [
    guard.open({
      method: 'POST',
      path: '/login',
      body: loginBody,
      handler: async ({ exchange, body }) => {
        const client = { ip: exchange.remoteAddress, userAgent: exchange.header('user-agent') };
        const email = normalEmail(body.email);
        const counted = { address: `address ${addressGroup(client.ip)}`, email: `email ${email}` };
        const before = sessionCookie(exchange);
        const wrong = apiError('invalid_credentials', 'Wrong email address or password.');
        // Attempts are limited both per client address and per email address. Both are counted before the password is
        // checked.
        await attempts.count('login', [counted.address, counted.email]);
        const known = await signIns.withEmail(email);
        let right = false;
        let upgraded: string | null = null;
        try {
          right = await verifyPassword(body.password, known?.passwordHash ?? null);
          if (right && known !== null && isOutdated(known.passwordHash)) upgraded = await hashPassword(body.password);
        } catch (error) {
          await signIns.resetAttempts(counted);
          throw error;
        }
        if (!right || known === null) throw wrong;
        if (known.secondFactor === true && !known.locked) {
          // The password was correct; code attempts are counted separately.
          await signIns.resetAttempts(counted);
          const { ticket, expiresAt } = tickets.issue(known);
          answer(exchange, { second_factor: { ticket, expires_at: new Date(expiresAt).toISOString() } });
          return;
        }
        const begun = await signIns.begin(known, upgraded, client, before, counted);
        if (begun === 'changed') throw wrong;
        enter(exchange, begun);
      },
    }),

    guard.open({
      method: 'POST',
      path: '/login/code',
      body: z.object({ ticket: z.string().min(1).max(1_024), code: codeField }),
      handler: async ({ exchange, body }) => {
        const client = { ip: exchange.remoteAddress, userAgent: exchange.header('user-agent') };
        const user = await tickets.open(body.ticket);
        await codes.use(user, body.code, client.ip);
        const begun = await signIns.begin(user, null, client, sessionCookie(exchange), null);
        if (begun === 'changed')
          throw apiError('invalid_token', 'The password was changed in the meantime. Sign in again.', 'ticket');
        enter(exchange, begun);
      },
    }),

    guard.user({
      method: 'POST',
      path: '/logout',
      handler: async ({ exchange, user, sessionId }) => {
        await signIns.end(user.id, sessionId, null);
        clearSessionCookie(exchange, origin);
        exchange.json(200, {});
      },
    }),

    guard.user({
      method: 'GET',
      path: '/me',
      handler: async ({ exchange, user }) =>
        exchange.json(200, await me(user, sessionCookie(exchange) as string, exchange.remoteAddress)),
    }),

    guard.user({
      method: 'PATCH',
      path: '/me',
      body: z.object({ name: nameField.nullish() }),
      handler: async ({ exchange, user, actor, body }) => {
        const { name } = body;
        const secret = sessionCookie(exchange) as string;
        const same = name === undefined || name === null || name === user.name;
        // rate-limited because each change adds an entry to the server's bounded audit log
        if (!same) await attempts.count('name', [user.id]);
        const changed = same ? user : await signIns.rename(user, name, actor);
        exchange.json(200, await me(changed ?? user, secret, exchange.remoteAddress));
      },
    }),

    guard.user({
      method: 'GET',
      path: '/sessions',
      handler: async ({ exchange, user, sessionId }) => {
        const all = (await signIns.sessions(user.id)).map((one) => sessionObject(one, sessionId));
        exchange.json(
          200,
          pageQueryOf(all, readPage(exchange.query), ({ id }) => id),
        );
      },
    }),

    guard.user({
      method: 'DELETE',
      path: '/sessions/:id',
      handler: async ({ exchange, user, sessionId, actor }) => {
        const id = exchange.params['id'] as string;
        if (!(await signIns.end(user.id, id, actor))) throw apiError('resource_not_found', 'Session not found.', 'id');
        if (id === sessionId) clearSessionCookie(exchange, origin);
        exchange.json(200, {});
      },
    }),
  ];
}
