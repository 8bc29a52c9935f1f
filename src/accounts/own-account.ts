// Storage port for a user's changes to their own account: changing the email address and deleting the account (see
// docs/internals/storage.md). Each method is one transaction, including its audit entry, and is durable when it
// resolves.

import { apiError } from '../shared/errors.js';
import type { Actor } from './audit.js';
import type { User } from './users.js';

/** The user after the change, and the previous address. */
export interface ChangedEmail {
  readonly user: User;
  readonly before: string;
}

export interface OwnAccount {
  /**
   * Creates the token for a link that is sent only to the new address, and invalidates the previous token. Rejects with
   * ApiError 422 email_taken.
   */
  emailToken(user: User, email: string, actor: Actor): Promise<string>;
  /**
   * Changes the address, using the token of the link that was sent. Rejects with ApiError 400 invalid_token or 422
   * email_taken.
   */
  confirmEmail(token: string, ip: string): Promise<ChangedEmail>;
  /**
   * Changes the email address immediately, for servers that do not send email. The new address counts as unconfirmed.
   * Rejects with ApiError 422 email_taken.
   */
  changeEmail(user: User, email: string, actor: Actor): Promise<ChangedEmail>;
  /**
   * Deletes the user with all memberships, sessions and links. Organization data is kept: keys, stored responses,
   * usage. Rejects with ApiError 422 if an organization would lose its last owner, or if the server would lose its last
   * operator.
   */
  delete(user: User, actor: Actor): Promise<void>;
}

export const emailTaken = (): Error =>
  apiError('email_taken', 'An account with this email address already exists.', 'email');

/** `organizations`: names of the organizations that would lose their last owner. Throws ApiError 422. */
export function checkLeaving(organizations: readonly string[], lastOperator: boolean): void {
  if (organizations.length > 0) {
    const names = organizations.map((name) => `"${name}"`).join(', ');
    throw apiError(
      'last_owner',
      `You are the last owner of ${names}. First make another member an owner, or delete the organization.`,
      'organizations',
    );
  }
  if (lastOperator)
    throw apiError(
      'invalid_value',
      'You are the last operator who can sign in. First make another user an operator.',
      'operator',
    );
}
