// Storage port for sign-up (see docs/internals/storage.md). A sign-up is one transaction and is durable when it
// resolves. It creates a user, an organization or membership, a session, and the audit entries. If several users sign
// up concurrently, one of them becomes the first user. Each email address and each invitation can be used only once.

import { apiError } from '../shared/errors.js';
import type { Role } from '../shared/wire/organizations.js';
import type { Actor } from './audit.js';
import type { ForeignIdentity } from './identities.js';
import type { Invite } from './invites.js';
import type { OrganizationView } from './organizations.js';
import type { Client } from './sign-ins.js';
import type { User } from './users.js';

export interface SignUpPolicy {
  /** Whether users can sign up without an invitation. */
  open: boolean;
  /** Whether only this machine can reach the server. If so, the first user needs no code. */
  local: boolean;
}

export interface SignUp {
  email: string; // as returned by normalEmail()
  name: string;
  organizationName: string | null;
  invite: string | null;
  code: string | null;
  /** The identity at the provider that vouched for the address. A user who signs up with it has no password. */
  identity?: ForeignIdentity;
  /**
   * The organization that the user joins instead of getting a new one, and the role that the provider's claim assigns.
   * Ignored with an invitation.
   */
  joins?: { readonly organizationId: string; readonly role: Role; readonly actor: Actor };
}

export interface SignedUp {
  user: User;
  organization: OrganizationView;
  role: Role;
  cookie: string;
}

export interface SignUps {
  /** Whether there are no users yet. */
  awaitsFirst(): Promise<boolean>;
  /** The setup code in the first user's link, created if needed. It survives restarts. Null if a user exists. */
  firstCode(): Promise<string | null>;
  /**
   * Rejects with ApiError 400, 403 or 422 if this sign-up is not allowed. Does not check whether the address is taken.
   */
  check(policy: SignUpPolicy, request: SignUp): Promise<void>;
  /** Repeats check(), because the state may have changed since then. Rejects with ApiError. */
  signUp(policy: SignUpPolicy, request: SignUp, passwordHash: string, client: Client): Promise<SignedUp>;
}

export const SETUP_CODE_CHARACTERS = 24;

export const signUpTaken = (): Error =>
  apiError('email_taken', 'An account with this email address already exists. Sign in instead.', 'email');
export const personKnown = (): Error =>
  apiError('email_taken', 'An account for this person already exists. Sign in instead.', 'email');

export type Permission = { as: 'first' } | { as: 'invited'; invite: Invite } | { as: 'new' };

/**
 * The stored data on which the checks below depend, supplied by the storage implementation. `invite` throws ApiError
 * 400 if the token does not belong to a pending invitation.
 */
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
      throw apiError(
        'signup_closed',
        'The first user must sign up with the link that the server shows when it starts.',
      );
    return { as: 'first' };
  }
  if (invite !== null) {
    const found = ofToken(invite);
    if (found.email !== email)
      throw apiError('invalid_value', 'This invitation is for a different email address.', 'email');
    return { as: 'invited', invite: found };
  }
  if (!policy.open) throw apiError('signup_closed', 'Sign-up requires an invitation.');
  return { as: 'new' };
}
