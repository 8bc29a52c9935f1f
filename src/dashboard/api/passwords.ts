// Passwords that are forgotten, chosen anew or changed, and showing that an address is one's own.

import { z } from 'zod';
import { addressGroup } from '../../accounts/attempts.js';
import { hashPassword, verifyPassword } from '../../accounts/passwords.js';
import { normalEmail } from '../../accounts/users.js';
import type { User } from '../../accounts/users.js';
import { ApiError, apiError } from '../../errors.js';
import type { Route } from '../../http/exchange.js';
import { newPasswordField, passwordField, tokenField } from './fields.js';
import type { DashboardDeps } from './deps.js';

export function passwordRoutes({ guard, directory, letters, telemetry }: Pick<DashboardDeps, 'guard' | 'directory' | 'letters' | 'telemetry'>): Route[] {
  const { store, users, sessions, tokens, attempts, audit } = directory;
  return [
    guard.open({
      method: 'POST', path: '/password/forgot', body: z.object({ email: z.string().min(1).max(1_000) }),
      serve: async ({ exchange, body }) => {
        await attempts.count('forgot', [addressGroup(exchange.remoteAddress)]);
        // The same answer, at the same moment, whoever asks for whomever: what follows is nobody's to see.
        exchange.json(200, {});
        const user = users.withEmail(normalEmail(body.email));
        if (user === undefined || user.locked || !letters.enabled) return;
        attempts.count('mail', [user.id]).then(() => letters.resetPassword(user), (error: unknown) => {
          if (!(error instanceof ApiError)) telemetry.log.error({ err: error }, 'a forgotten password could not be looked after');
        });
      },
    }),

    guard.open({
      method: 'POST', path: '/password/reset', body: z.object({ token: tokenField, password: newPasswordField }),
      serve: async ({ exchange, body }) => {
        const ip = exchange.remoteAddress;
        const { userId } = tokens.find(body.token, 'password');
        await attempts.count('password', [userId]);
        const passwordHash = await hashPassword(body.password);
        const user = await store.transaction(() => {
          const { mailed } = tokens.use(body.token, 'password');
          const changed = users.change(userId, { passwordHash, ...(mailed ? { emailVerified: true } : {}) });
          if (changed === undefined) throw apiError('invalid_token', 'This account is gone.', 'token');
          sessions.endAll(userId);
          attempts.forget('password', userId);
          audit.note(null, { type: 'user', id: userId, email: changed.email, ip }, 'user.password_reset', userId);
          return changed;
        });
        exchange.json(200, {});
        letters.passwordChanged(user);
      },
    }),

    guard.user({
      method: 'POST', path: '/password/change', body: z.object({ current_password: passwordField, new_password: newPasswordField }),
      serve: async ({ exchange, user, sessionId, actor, body }) => {
        await attempts.count('password', [user.id]);
        if (!await verifyPassword(body.current_password, user.passwordHash)) throw apiError('invalid_value', 'current_password is wrong.', 'current_password');
        const passwordHash = await hashPassword(body.new_password);
        await store.transaction(() => {
          if (users.get(user.id)?.passwordHash !== user.passwordHash) throw apiError('invalid_value', 'The password was changed meanwhile.', 'current_password');
          users.change(user.id, { passwordHash });
          sessions.endAll(user.id, sessionId);
          tokens.removeOf(user.id, 'password');
          attempts.forget('password', user.id);
          audit.note(null, actor, 'user.password_changed', user.id);
        });
        exchange.json(200, {});
        letters.passwordChanged(user);
      },
    }),

    guard.open({
      method: 'POST', path: '/email/verify', body: z.object({ token: tokenField }),
      serve: async ({ exchange, body }) => {
        const ip = exchange.remoteAddress;
        await store.transaction(() => {
          const { userId } = tokens.use(body.token, 'email');
          const user = users.change(userId, { emailVerified: true });
          if (user !== undefined) audit.note(null, actorOf(user, ip), 'user.email_verified', userId);
        });
        exchange.json(200, {});
      },
    }),

    guard.user({
      method: 'POST', path: '/email/send-verification',
      serve: async ({ exchange, user }) => {
        if (!letters.enabled) throw apiError('unsupported_feature', 'This server sends no mail; the settings mail.smtp_url and dashboard.url turn it on.');
        if (!user.emailVerified) {
          await attempts.count('mail', [user.id]);
          letters.verifyEmail(user);
        }
        exchange.json(200, {});
      },
    }),
  ];
}

const actorOf = ({ id, email }: User, ip: string): { type: 'user'; id: string; email: string; ip: string } => ({ type: 'user', id, email, ip });
