// OpenID Connect sign-in: the start URL, and a message for each failure.
import type { OidcFailure } from '../../../accounts/oidc/failures.js';
import { API, withQuery } from './api.js';

/** A full navigation, not a route change within the page. */
export const oidcStart = (query: { next?: string | null; invite?: string | null }): string =>
  withQuery(`${API}/oidc/start`, query);

const TEXTS: Readonly<Record<OidcFailure, (name: string) => string>> = {
  unreachable: (name) => `${name} is unreachable. Try again, or sign in with your password.`,
  failed: (name) =>
    `${name} returned an invalid response. Try again. If it happens again, the operator can find the reason in the server's log.`,
  denied: (name) => `Sign-in was cancelled at ${name}.`,
  expired: () => 'Sign-in took too long or was continued in a different browser. Start again.',
  no_email: (name) => `${name} did not provide a verified email address, which is required.`,
  domain: () => 'Email addresses in your domain are not allowed here. Contact the operator of this server.',
  no_account: () =>
    'You do not have an account here yet. Ask an admin of your organization to invite you, then open the link in the invitation.',
  account_exists: (name) =>
    `An account with your email address already exists. Sign in with its password, then link it to ${name} in your profile.`,
  taken: (name) => `Your account at ${name} is linked to a different account here.`,
  first_user: () =>
    'No account exists yet. Create the first one with a password. It becomes the operator of this server.',
  no_role: (name) =>
    `Your account at ${name} has no role on this server. Ask its administrator to add you to a group that has one.`,
  locked: () => 'This account is locked. Contact the operator of this server.',
  invite: () => 'The invitation is no longer valid, or is for a different email address.',
  too_many: () => 'Too many attempts. Try again in 15 minutes.',
};

/** The message for the page's `?oidc=` parameter; null if there is none. */
export function oidcFailure(search: string, name: string): string | null {
  const failure = new URLSearchParams(search).get('oidc');
  return failure !== null && Object.hasOwn(TEXTS, failure) ? TEXTS[failure as OidcFailure](name) : null;
}
