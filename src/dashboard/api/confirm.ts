// Before what would lock somebody out of their account, or let somebody else in: that it is really they.

import type { Attempts } from '../../accounts/attempts.js';
import { verifyPassword } from '../../accounts/passwords.js';
import type { User } from '../../accounts/users.js';
import { apiError } from '../../shared/errors.js';

/** How long a session that the identity provider began replaces the password of an account without one. */
const FRESH_MS = 10 * 60_000;

/** `signedInAt`: of the session; `now`: by the same clock; in milliseconds. Rejects with ApiError 422 for the field `password`, 403, 429. */
export async function confirmPassword(
  attempts: Attempts,
  { user, signedInAt }: { user: User; signedInAt: number },
  password: string | null | undefined,
  now: number,
): Promise<void> {
  if (user.passwordHash === '') {
    if (Math.abs(now - signedInAt) > FRESH_MS)
      throw apiError(
        'recent_sign_in_required',
        'This account has no password. Sign out and in again; within ten minutes after that this can be done.',
      );
    return;
  }
  if (password == null || password === '')
    throw apiError('missing_required_parameter', 'password is missing.', 'password');
  await attempts.count('password', [user.id]);
  if (!(await verifyPassword(password, user.passwordHash)))
    throw apiError('invalid_value', 'password is wrong.', 'password');
}
