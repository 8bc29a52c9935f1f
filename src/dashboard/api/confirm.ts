// Verifies the user's identity before actions that could lock the user out of the account or give another person access
// to it.

import type { Attempts } from '../../accounts/attempts.js';
import { verifyPassword } from '../../accounts/passwords.js';
import type { User } from '../../accounts/users.js';
import { apiError } from '../../shared/errors.js';

/**
 * For accounts without a password, a session that was started through the identity provider within this time is
 * accepted instead.
 */
const FRESH_MS = 10 * 60_000;

/**
 * `signedInAt`: start of the session; `now`: the current time on the same clock; both in milliseconds. Rejects with
 * ApiError 422 for the field `password`, or with 403 or 429.
 */
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
        'This account has no password. Sign out, sign in again, and try again within ten minutes.',
      );
    return;
  }
  if (password == null || password === '')
    throw apiError('missing_required_parameter', 'password is missing.', 'password');
  await attempts.count('password', [user.id]);
  if (!(await verifyPassword(password, user.passwordHash)))
    throw apiError('invalid_value', 'password is wrong.', 'password');
}
