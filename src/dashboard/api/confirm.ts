// Before what would lock somebody out of their account, or let somebody else in: that it is really they.

import type { Attempts } from '../../accounts/attempts.js';
import { verifyPassword } from '../../accounts/passwords.js';
import type { User } from '../../accounts/users.js';
import { apiError } from '../../errors.js';

/** Rejects with ApiError 422 for the field `password`, 429. */
export async function confirmPassword(attempts: Attempts, user: User, password: string): Promise<void> {
  await attempts.count('password', [user.id]);
  if (!await verifyPassword(password, user.passwordHash)) throw apiError('invalid_value', 'password is wrong.', 'password');
}
