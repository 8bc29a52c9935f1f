// Signing in by the provider of OpenID Connect: where it begins, and what its ends are called.
import type { OidcFailure } from '../../../accounts/oidc/failures.js';
import { API, withQuery } from './api.js';

/** A whole navigation, not one within the page. */
export const oidcStart = (query: { next?: string | null; invite?: string | null }): string =>
  withQuery(`${API}/oidc/start`, query);

const TEXTS: Readonly<Record<OidcFailure, (name: string) => string>> = {
  unreachable: (name) => `${name} cannot be reached at this moment. Try again, or sign in with your password.`,
  failed: (name) =>
    `${name} gave an answer that is not right. Try again; if it stays, the operator finds the reason in the server's log.`,
  denied: (name) => `Signing in with ${name} was cancelled there.`,
  expired: () => 'This took too long, or went on in another browser. Begin again.',
  no_email: (name) => `${name} does not name an e-mail address that it has verified, which is needed here.`,
  domain: () => 'Addresses of your domain may not come in here. Ask the operator of this server.',
  no_account: () =>
    'There is no account for you here yet. Ask an admin of your organization for an invitation, and open its link.',
  account_exists: (name) =>
    `There is an account with your e-mail address already. Sign in with its password, then link it to ${name} in your profile.`,
  taken: (name) => `This person at ${name} belongs to another account here.`,
  first_user: () => 'Nobody has signed up yet: the first account, which runs this server, is made with a password.',
  locked: () => 'This account is locked. Ask the operator of this server.',
  invite: () => 'The invitation is not valid any more, or is for another e-mail address.',
  too_many: () => 'Too many attempts. Try again in a quarter of an hour.',
};

/** What to show of the page's `?oidc=`; null where it says nothing. */
export function oidcFailure(search: string, name: string): string | null {
  const failure = new URLSearchParams(search).get('oidc');
  return failure !== null && Object.hasOwn(TEXTS, failure) ? TEXTS[failure as OidcFailure](name) : null;
}
