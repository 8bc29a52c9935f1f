// People who sign in, as operators see them: a port, see docs/internals/storage.md. Each method is one unit of work, with what
// the audit log says of it, durable when it resolves. What a user does for themselves is sign-ins.ts's.

import { apiError } from '../shared/errors.js';
import type { Role } from '../shared/wire/dashboard.js';
import type { Actor } from './audit.js';
import type { Slice } from './slice.js';

export interface User {
  id: string; // user_…
  email: string; // lower case; unique
  name: string;
  /** Encoded with its parameters, see passwords.ts. */
  passwordHash: string;
  emailVerified: boolean;
  operator: boolean;
  locked: boolean;
  createdAt: string; // RFC 3339
  lastLoginAt: string | null;
  /** A code is asked for at each sign-in: see second-factors.ts. Rows of before there were any have none. */
  secondFactor?: boolean;
}

/** With the organizations they belong to, oldest membership first. */
export interface ListedUser {
  readonly user: User;
  readonly organizations: { id: string; name: string; role: Role }[];
}

/** What an operator may change of a user; undefined stays. */
export interface UserRights {
  locked: boolean | undefined;
  operator: boolean | undefined;
}

export interface Users {
  get(id: string): Promise<User | null>;
  /** By id, from after `after`. */
  page(limit: number, after: string | null): Promise<Slice<ListedUser>>;
  /**
   * Whoever is locked has no session any more. `by`: the operator who does so; null: whoever has the token. Rejects with
   * ApiError 404, or 422 if it is oneself or the last operator who can sign in.
   */
  change(id: string, rights: UserRights, by: string | null, actor: Actor): Promise<ListedUser>;
}

/** Whether a user's rights may become these. `otherOperator`: whether anybody else is one who can sign in. Throws ApiError 422. */
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
      'Nobody can lock themselves or take their own operator right away. Another operator can.',
      param,
    );
  if (user.operator && !user.locked && (locked || !operator) && !otherOperator())
    throw apiError('invalid_value', 'This is the last operator who can sign in.', param);
}

/** What a user's rights become; null: they are so already. Throws ApiError 422. */
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

export const noSuchUser = (): Error => apiError('resource_not_found', 'There is no such user.', 'user');

/** One spelling for one address: lower case, composed characters. */
export function normalEmail(email: string): string {
  return email.trim().normalize('NFKC').toLowerCase();
}
