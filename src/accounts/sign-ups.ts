// Signing up: a port, see docs/internals/storage.md. Somebody signs up with one unit of work: a user, an organization or a
// membership in one, a session, and what the audit log says of it, durable when it resolves. Of many at once, one is
// the first; an address and an invitation are taken once.

import { apiError } from '../shared/errors.js';
import type { Role } from '../shared/wire/dashboard.js';
import type { ForeignIdentity } from './identities.js';
import type { Invite } from './invites.js';
import type { OrganizationView } from './organizations.js';
import type { Client } from './sign-ins.js';
import type { User } from './users.js';

export interface SignUpPolicy {
  /** Anybody may, not only who is invited. */
  open: boolean;
  /** Only who is at this machine can reach the server: the first user needs no code. */
  local: boolean;
}

export interface SignUp {
  email: string; // as normalEmail() gives it
  name: string;
  organizationName: string | null;
  invite: string | null;
  code: string | null;
  /** Who this is at the provider that has vouched for the address; such a user has no password. */
  identity?: ForeignIdentity;
}

export interface SignedUp {
  user: User;
  organization: OrganizationView;
  role: Role;
  cookie: string;
}

export interface SignUps {
  /** Nobody has signed up yet. */
  awaitsFirst(): Promise<boolean>;
  /** The code of the first one's link, made if there is none; the same after a restart. Null: somebody has signed up. */
  firstCode(): Promise<string | null>;
  /** Rejects with ApiError 403, 400 or 422 if this one may not sign up. Whether the address is taken is known later. */
  check(policy: SignUpPolicy, wish: SignUp): Promise<void>;
  /** What check() looks at is looked at again: somebody may have been quicker. Rejects with ApiError. */
  signUp(policy: SignUpPolicy, wish: SignUp, passwordHash: string, client: Client): Promise<SignedUp>;
}

export const SETUP_CODE_CHARACTERS = 24;

export const signUpTaken = (): Error =>
  apiError('email_taken', 'There is an account with this e-mail address already. Sign in instead.', 'email');
export const personKnown = (): Error =>
  apiError('email_taken', 'There is an account for this person already. Sign in instead.', 'email');

export type Permission = { as: 'first' } | { as: 'invited'; invite: Invite } | { as: 'new' };

/** What whoever keeps the sign-ups knows when it is asked. `invite` throws ApiError 400 if the token is no pending one's. */
export interface SignUpFacts {
  isFirst: boolean;
  hasCode(code: string): boolean;
  invite(token: string): Invite;
}

/** Throws ApiError. */
export function permission(
  { isFirst, hasCode, invite: ofToken }: SignUpFacts,
  policy: SignUpPolicy,
  { email, invite, code }: SignUp,
): Permission {
  if (isFirst) {
    if (!policy.local && (code === null || !hasCode(code)))
      throw apiError('signup_closed', 'The first user signs up with the link that the server shows when it starts.');
    return { as: 'first' };
  }
  if (invite !== null) {
    const found = ofToken(invite);
    if (found.email !== email)
      throw apiError('invalid_value', 'This invitation is for another e-mail address.', 'email');
    return { as: 'invited', invite: found };
  }
  if (!policy.open) throw apiError('signup_closed', 'Signing up needs an invitation.');
  return { as: 'new' };
}
