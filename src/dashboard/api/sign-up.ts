// GET /status, POST /signup, and a preview of a link's invitation.

import { z } from 'zod';
import { addressGroup } from '../../accounts/attempts.js';
import { hashPassword } from '../../accounts/passwords.js';
import type { SignUpPolicy, SignUps } from '../../accounts/sign-ups.js';
import type { Config } from '../../config/settings.js';
import type { Route } from '../../http/exchange.js';
import { VERSION } from '../../shared/version.js';
import type { DashboardStatus } from '../../shared/wire/users.js';
import type { Attempts } from '../../accounts/attempts.js';
import type { OidcProvider } from '../../accounts/oidc/provider.js';
import type { SignIns } from '../../accounts/sign-ins.js';
import type { DashboardOrigin } from '../origin.js';
import { sessionCookie, setSessionCookie } from './cookie.js';
import { emailField, nameField, newPasswordField, tokenField } from './fields.js';
import { organizationObject, userObject } from './objects.js';
import type { AccountMailer } from './account-mailer.js';
import type { Guard } from './guard.js';
import type { OrganizationLimits } from './objects.js';

const signUpBody = z.object({
  email: emailField,
  password: newPasswordField,
  name: nameField,
  organization_name: nameField.nullish(),
  invite: tokenField.nullish(),
  code: tokenField.nullish(),
});

export function signUpPolicy({ accounts }: Pick<Config, 'accounts'>, origin: DashboardOrigin): SignUpPolicy {
  return { local: origin.isLocal, open: accounts.signup === 'open' || (accounts.signup === 'auto' && origin.isLocal) };
}

export interface SignUpDeps {
  guard: Guard;
  signIns: SignIns;
  signUps: SignUps;
  attempts: Attempts;
  mailer: AccountMailer;
  /** Null if no provider is configured. */
  oidc: OidcProvider | null;
  organizationLimits: OrganizationLimits;
  origin: DashboardOrigin;
  config: Pick<Config, 'accounts' | 'oidc'>;
}

export function signUpRoutes({
  guard,
  signIns,
  signUps,
  attempts,
  mailer,
  oidc,
  organizationLimits,
  origin,
  config,
}: SignUpDeps): Route[] {
  const policy = signUpPolicy(config, origin);
  return [
    guard.open({
      method: 'GET',
      path: '/status',
      handler: async ({ exchange }) => {
        const first = await signUps.awaitsFirst();
        const secret = sessionCookie(exchange);
        const status: DashboardStatus = {
          version: VERSION,
          first_user: first,
          signup: first && !policy.local ? 'setup_code' : first || policy.open ? 'open' : 'invited',
          oidc: oidc === null ? null : { name: config.oidc.name },
          mail: mailer.enabled,
          signed_in: secret !== null && (await signIns.find(secret)) !== null,
        };
        exchange.json(200, status);
      },
    }),

    guard.open({
      method: 'POST',
      path: '/signup',
      body: signUpBody,
      handler: async ({ exchange, body }) => {
        const client = { ip: exchange.remoteAddress, userAgent: exchange.header('user-agent') };
        const request = {
          email: body.email,
          name: body.name,
          organizationName: body.organization_name ?? null,
          invite: body.invite ?? null,
          code: body.code ?? null,
        };
        await attempts.count('signup', [addressGroup(client.ip)]);
        // The request is checked before the password is hashed, so that unauthenticated clients cannot trigger
        // expensive hashing.
        await signUps.check(policy, request);
        const { user, organization, cookie } = await signUps.signUp(
          policy,
          request,
          await hashPassword(body.password),
          client,
        );
        setSessionCookie(exchange, origin, cookie);
        exchange.json(200, {
          user: userObject(user),
          organization: organizationObject(organization, organizationLimits(organization)),
        });
        mailer.verifyEmail(user);
      },
    }),
  ];
}
