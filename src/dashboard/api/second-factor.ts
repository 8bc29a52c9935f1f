// …/second-factor: the user's own two-factor authentication: generate a secret, confirm it, turn it off, and replace
// the recovery codes.

import { z } from 'zod';
import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import type { RecoveryCodes, SecondFactorProposal, SecondFactorState } from '../../shared/wire/users.js';
import type { Attempts } from '../../accounts/attempts.js';
import type { Config } from '../../config/settings.js';
import type { SecondFactorCodes } from '../../accounts/second-factor-codes.js';
import type { SecondFactors } from '../../accounts/second-factors.js';
import type { DashboardOrigin } from '../origin.js';
import { confirmPassword } from './confirm.js';
import { codeField, passwordField } from './fields.js';
import type { AccountMailer } from './account-mailer.js';
import type { Guard } from './guard.js';

export interface SecondFactorDeps {
  guard: Guard;
  secondFactors: SecondFactors;
  attempts: Attempts;
  codes: SecondFactorCodes;
  mailer: AccountMailer;
  origin: DashboardOrigin;
  config: Pick<Config, 'accounts'>;
  now: () => number;
}

export function secondFactorRoutes({
  guard,
  secondFactors,
  attempts,
  codes,
  mailer,
  origin,
  config,
  now,
}: SecondFactorDeps): Route[] {
  const isRequired = config.accounts.operator_second_factor === 'required';
  return [
    guard.user({
      method: 'GET',
      path: '/second-factor',
      handler: async ({ exchange, user }) => {
        const factor = await secondFactors.get(user.id);
        const state: SecondFactorState = {
          enabled: factor !== null,
          since: factor?.since ?? null,
          recovery_codes_left: factor?.recovery.length ?? 0,
          required: isRequired && user.operator,
        };
        exchange.json(200, state);
      },
    }),

    guard.user({
      method: 'POST',
      path: '/second-factor/begin',
      body: z.object({ password: passwordField.nullish() }),
      handler: async ({ exchange, user, signedInAt, body }) => {
        if (user.secondFactor === true)
          throw apiError(
            'invalid_value',
            'Two-factor authentication is already on. Turn it off first to use another device.',
          );
        await confirmPassword(attempts, { user, signedInAt }, body.password, now());
        const { secret, uri } = await codes.propose(user, `Monolith ${origin.host(exchange)}`);
        const proposal: SecondFactorProposal = { secret, uri };
        exchange.json(200, proposal);
      },
    }),

    guard.user({
      method: 'POST',
      path: '/second-factor/enable',
      body: z.object({ code: codeField }),
      handler: async ({ exchange, user, sessionId, actor, body }) => {
        const answer: RecoveryCodes = { recovery_codes: await codes.enable(user, body.code, sessionId, actor) };
        exchange.json(200, answer);
        mailer.secondFactorChanged(user, true);
      },
    }),

    guard.user({
      method: 'POST',
      path: '/second-factor/recovery-codes',
      body: z.object({ code: codeField }),
      handler: async ({ exchange, user, actor, body }) => {
        await codes.use(user, body.code, actor.ip ?? '');
        const answer: RecoveryCodes = { recovery_codes: await codes.replaceRecovery(user, actor) };
        exchange.json(200, answer);
      },
    }),

    guard.user({
      method: 'POST',
      path: '/second-factor/disable',
      body: z.object({ password: passwordField.nullish(), code: codeField }),
      handler: async ({ exchange, user, signedInAt, actor, body }) => {
        if (isRequired && user.operator)
          throw apiError(
            'second_factor_required',
            'Two-factor authentication cannot be turned off: this server requires it for operators. To change devices, ask another operator to reset it.',
          );
        await confirmPassword(attempts, { user, signedInAt }, body.password, now());
        await codes.use(user, body.code, actor.ip ?? '');
        await secondFactors.disable(user, actor);
        exchange.json(200, {});
        mailer.secondFactorChanged(user, false);
      },
    }),
  ];
}
