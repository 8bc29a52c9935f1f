// Password reset and change, and email verification.

import { z } from 'zod';
import { addressGroup } from '../../accounts/attempts.js';
import { hashPassword, verifyPassword } from '../../accounts/passwords.js';
import { normalEmail } from '../../accounts/users.js';
import { ApiError, apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import type { Attempts } from '../../accounts/attempts.js';
import type { Log } from '../../telemetry/types.js';
import type { SignIns } from '../../accounts/sign-ins.js';
import { newPasswordField, passwordField, tokenField } from './fields.js';
import type { AccountMailer } from './account-mailer.js';
import type { Guard } from './guard.js';

export interface PasswordDeps {
  guard: Guard;
  signIns: SignIns;
  attempts: Attempts;
  mailer: AccountMailer;
  log: Log;
}

export function passwordRoutes({ guard, signIns, attempts, mailer, log }: PasswordDeps): Route[] {
  return [
    guard.open({
      method: 'POST',
      path: '/password/forgot',
      body: z.object({ email: z.string().min(1).max(1_000) }),
      handler: async ({ exchange, body }) => {
        await attempts.count('forgot', [addressGroup(exchange.remoteAddress)]);
        // Responds before the lookup, and always identically, so that neither content nor timing reveals whether the
        // account exists.
        exchange.json(200, {});
        const user = await signIns.withEmail(normalEmail(body.email));
        if (user === null || user.locked || !mailer.enabled) return;
        attempts.count('mail', [user.id]).then(
          () => mailer.resetPassword(user),
          (error: unknown) => {
            if (!(error instanceof ApiError)) log.error({ err: error }, 'processing a password reset request failed');
          },
        );
      },
    }),

    guard.open({
      method: 'POST',
      path: '/password/reset',
      body: z.object({ token: tokenField, password: newPasswordField }),
      handler: async ({ exchange, body }) => {
        const ip = exchange.remoteAddress;
        const userId = await signIns.userOfResetLink(body.token);
        await attempts.count('password', [userId]);
        const passwordHash = await hashPassword(body.password);
        const user = await signIns.resetPassword(body.token, userId, passwordHash, ip);
        exchange.json(200, {});
        mailer.passwordChanged(user);
      },
    }),

    guard.user({
      method: 'POST',
      path: '/password/change',
      body: z.object({ current_password: passwordField, new_password: newPasswordField }),
      handler: async ({ exchange, user, sessionId, actor, body }) => {
        await attempts.count('password', [user.id]);
        if (!(await verifyPassword(body.current_password, user.passwordHash)))
          throw apiError('invalid_value', 'current_password is wrong.', 'current_password');
        const passwordHash = await hashPassword(body.new_password);
        if (!(await signIns.changePassword(user, passwordHash, sessionId, actor)))
          throw apiError('invalid_value', 'The password was changed in the meantime.', 'current_password');
        exchange.json(200, {});
        mailer.passwordChanged(user);
      },
    }),

    guard.open({
      method: 'POST',
      path: '/email/verify',
      body: z.object({ token: tokenField }),
      handler: async ({ exchange, body }) => {
        await signIns.verifyEmail(body.token, exchange.remoteAddress);
        exchange.json(200, {});
      },
    }),

    guard.user({
      method: 'POST',
      path: '/email/send-verification',
      handler: async ({ exchange, user }) => {
        if (!mailer.enabled)
          throw apiError(
            'unsupported_feature',
            'This server does not send email. To enable it, set mail.smtp_url and dashboard.url.',
          );
        if (!user.emailVerified) {
          await attempts.count('mail', [user.id]);
          mailer.verifyEmail(user);
        }
        exchange.json(200, {});
      },
    }),
  ];
}
