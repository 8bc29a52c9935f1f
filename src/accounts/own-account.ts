// What a user does with the account itself: another e-mail address, the end of it. A port, see docs/internals/storage.md. Each
// method is one unit of work, with what the audit log says of it, durable when it resolves.

import { apiError } from '../shared/errors.js';
import type { Actor } from './audit.js';
import type { User } from './users.js';

/** Whose address was changed, and from which. */
export interface ChangedEmail {
  readonly user: User;
  readonly before: string;
}

export interface OwnAccount {
  /** The token of a link that goes to the new address by mail alone; it replaces the one before. Rejects with ApiError 422 email_taken. */
  emailToken(user: User, email: string, actor: Actor): Promise<string>;
  /** By that link. Rejects with ApiError 400 invalid_token, 422 email_taken. */
  confirmEmail(token: string, ip: string): Promise<ChangedEmail>;
  /** At once, where no mail is sent: the address counts as not confirmed. Rejects with ApiError 422 email_taken. */
  changeEmail(user: User, email: string, actor: Actor): Promise<ChangedEmail>;
  /**
   * The user, every membership, session and link is gone. What belongs to organizations stays theirs: keys, stored
   * responses, usage. Rejects with ApiError 422 if it would leave an organization without an owner, or the server
   * without an operator.
   */
  delete(user: User, actor: Actor): Promise<void>;
}

export const emailTaken = (): Error =>
  apiError('email_taken', 'There is an account with this e-mail address already.', 'email');

/** `organizations`: names of those that would be left without an owner. Throws ApiError 422. */
export function checkLeaving(organizations: readonly string[], lastOperator: boolean): void {
  if (organizations.length > 0) {
    const names = organizations.map((name) => `"${name}"`).join(', ');
    throw apiError(
      'last_owner',
      `You are the last owner of ${names}. Make somebody else an owner there, or delete the organization, first.`,
      'organizations',
    );
  }
  if (lastOperator)
    throw apiError(
      'invalid_value',
      'You are the last operator who can sign in. Make somebody else an operator first.',
      'operator',
    );
}
