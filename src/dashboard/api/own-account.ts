// Changes the email address of the user's own account, or deletes the account.

import { z } from 'zod';
import { emailTaken } from '../../accounts/own-account.js';
import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import type { EmailChange } from '../../shared/wire/users.js';
import type { Attempts } from '../../accounts/attempts.js';
import type { OwnAccount } from '../../accounts/own-account.js';
import type { SecondFactorCodes } from '../../accounts/second-factor-codes.js';
import type { SignIns } from '../../accounts/sign-ins.js';
import type { DashboardOrigin } from '../origin.js';
import type { SavedStore } from '../saved/saved-store.js';
import { confirmPassword } from './confirm.js';
import { clearSessionCookie } from './cookie.js';
import { codeField, emailField, passwordField, tokenField } from './fields.js';
import type { AccountMailer } from './account-mailer.js';
import type { Guard } from './guard.js';

export interface OwnAccountDeps {
  guard: Guard;
  ownAccount: OwnAccount;
  signIns: SignIns;
  attempts: Attempts;
  codes: SecondFactorCodes;
  saved: Pick<SavedStore, 'eraseUser'>;
  mailer: AccountMailer;
  origin: DashboardOrigin;
  now: () => number;
}

export function ownAccountRoutes({
  guard,
  ownAccount,
  signIns,
  attempts,
  codes,
  saved,
  mailer,
  origin,
  now,
}: OwnAccountDeps): Route[] {
  return [
    guard.user({
      method: 'POST',
      path: '/email/change',
      body: z.object({ email: emailField, password: passwordField.nullish() }),
      handler: async ({ exchange, user, signedInAt, actor, body: { email, password } }) => {
        if (email === user.email)
          throw apiError('invalid_value', "email must differ from the account's current address.", 'email');
        await confirmPassword(attempts, { user, signedInAt }, password, now());
        // rate-limited because each change adds an entry to the server's bounded audit log
        await attempts.count('name', [user.id]);
        const answer: EmailChange = { email, confirmation_sent: mailer.enabled };
        if (mailer.enabled) {
          if ((await signIns.withEmail(email)) !== null) throw emailTaken();
          await attempts.count('mail', [user.id, `new address ${email}`]);
          mailer.newEmail(user, email, await ownAccount.emailToken(user, email, actor));
        } else {
          await ownAccount.changeEmail(user, email, actor);
        }
        exchange.json(200, answer);
      },
    }),

    guard.open({
      method: 'POST',
      path: '/email/change/confirm',
      body: z.object({ token: tokenField }),
      handler: async ({ exchange, body }) => {
        const { user, before } = await ownAccount.confirmEmail(body.token, exchange.remoteAddress);
        exchange.json(200, { email: user.email });
        mailer.emailChanged(user, before);
      },
    }),

    guard.user({
      method: 'POST',
      path: '/account/delete',
      body: z.object({ password: passwordField.nullish(), code: codeField.nullish() }),
      handler: async ({ exchange, user, signedInAt, actor, body }) => {
        await confirmPassword(attempts, { user, signedInAt }, body.password, now());
        if (user.secondFactor === true) {
          if (body.code == null)
            throw apiError(
              'missing_required_parameter',
              'code is missing: this account uses two-factor authentication.',
              'code',
            );
          await codes.use(user, body.code, actor.ip ?? '');
        }
        await ownAccount.delete(user, actor);
        await saved.eraseUser(user.id); // if the process crashes here, the periodic sweep erases the rest
        clearSessionCookie(exchange, origin);
        exchange.json(200, {});
        mailer.accountDeleted(user);
      },
    }),
  ];
}
