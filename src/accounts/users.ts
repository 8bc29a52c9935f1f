// Storage port for users as operators manage them (see docs/internals/storage.md). Each method is one transaction,
// including its audit entry, and is durable when it resolves. Operations by users themselves are in sign-ins.ts.

import { apiError } from '../shared/errors.js';
import type { Role } from '../shared/wire/organizations.js';
import type { Actor } from './audit.js';
import type { Page } from './page.js';

export interface User {
  id: string; // user_…
  email: string; // lower case; unique
  name: string;
  /** The password hash, encoded with its parameters; see passwords.ts. */
  passwordHash: string;
  emailVerified: boolean;
  operator: boolean;
  locked: boolean;
  createdAt: string; // RFC 3339
  lastLoginAt: string | null;
  /** Whether sign-in requires a code; see second-factors.ts. Absent in old rows. */
  secondFactor?: boolean;
}

/**
 * Time of the last sign-in. Earlier releases did not store it; for users of these releases, this is the time of the
 * sign-up until they sign in again.
 */
export const lastSignIn = ({ lastLoginAt, createdAt }: User): string => lastLoginAt ?? createdAt;

/** A user with their organizations, oldest membership first. */
export interface ListedUser {
  readonly user: User;
  readonly organizations: { id: string; name: string; role: Role }[];
}

/** Fields that an operator may change. Undefined fields stay unchanged. */
export interface UserRights {
  locked: boolean | undefined;
  operator: boolean | undefined;
}

export interface Users {
  get(id: string): Promise<User | null>;
  /** Ordered by ID, starting after `after`. */
  page(limit: number, after: string | null): Promise<Page<ListedUser>>;
  /**
   * Locking a user ends all their sessions. `by`: the operator; null: the operator token. Rejects with ApiError 404, or
   * with 422 if operators target themselves or the last operator who can sign in.
   */
  change(id: string, rights: UserRights, by: string | null, actor: Actor): Promise<ListedUser>;
}

/**
 * Checks a change of rights. `otherOperator`: whether there is another operator who can sign in. Throws ApiError 422.
 */
function checkRights(
  user: User,
  { locked, operator }: { locked: boolean; operator: boolean },
  by: string | null,
  otherOperator: () => boolean,
): void {
  const param = locked === user.locked ? 'operator' : 'locked';
  if (user.id === by)
    throw apiError(
      'invalid_value',
      'You cannot lock yourself or remove your own operator rights. Ask another operator.',
      param,
    );
  if (user.operator && !user.locked && (locked || !operator) && !otherOperator())
    throw apiError('invalid_value', 'This is the last operator who can sign in.', param);
}

/** Returns the rights after a change, or null if nothing changes. Throws ApiError 422. */
export function changedRights(
  user: User,
  rights: UserRights,
  by: string | null,
  otherOperator: () => boolean,
): { locked: boolean; operator: boolean } | null {
  const locked = rights.locked ?? user.locked;
  const operator = rights.operator ?? user.operator;
  if (locked === user.locked && operator === user.operator) return null;
  checkRights(user, { locked, operator }, by, otherOperator);
  return { locked, operator };
}

export const noSuchUser = (): Error => apiError('resource_not_found', 'User not found.', 'user');

/** An address in canonical form: lower case, with composed characters. */
export function normalEmail(email: string): string {
  return email.trim().normalize('NFKC').toLowerCase();
}
