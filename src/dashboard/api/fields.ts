// Fields shared by several request bodies of the dashboard API, with their bounds.

import { z } from 'zod';
import { MAX_PASSWORD_BYTES, MIN_PASSWORD_CHARACTERS } from '../../accounts/passwords.js';
import { normalEmail } from '../../accounts/users.js';
import type { ErrorCode } from '../../shared/error-codes.js';

const issue = (api: ErrorCode, message: string): { code: 'custom'; params: { api: ErrorCode }; message: string } => ({
  code: 'custom',
  params: { api },
  message,
});

/** Name of a user or organization: a single line. */
export const nameField = z
  .string()
  .trim()
  .min(1)
  .max(100)
  .refine((text) => !/\p{Cc}|\p{Cf}/u.test(text), 'must not contain control characters');

/**
 * An email address, as returned by normalEmail(). Whether the domain exists is not checked here.
 */
export const emailField = z
  .string()
  .max(254)
  .transform(normalEmail)
  .superRefine((email, context) => {
    // Invisible characters are refused, because they could make two different accounts look the same.
    if (!/^[^\s@"<>(),:;\\[\]]{1,64}@[^\s@"<>(),:;\\[\]]{1,253}$/.test(email) || /\p{Cc}|\p{Cf}/u.test(email))
      context.addIssue(issue('invalid_value', 'must be a valid email address'));
  });

/** A new password. */
export const newPasswordField = z.string().superRefine((password, context) => {
  const normal = password.normalize('NFKC');
  if (Buffer.byteLength(normal) > MAX_PASSWORD_BYTES)
    context.addIssue(issue('string_too_long', `must be at most ${MAX_PASSWORD_BYTES} bytes long`));
  else if ([...normal].length < MIN_PASSWORD_CHARACTERS)
    context.addIssue(issue('invalid_value', `must be at least ${MIN_PASSWORD_CHARACTERS} characters long`));
});

/** A password to verify. The maximum is the longest password that can be stored. */
export const passwordField = z.string().min(1).max(MAX_PASSWORD_BYTES);

function isWebAddress(value: string): boolean {
  if (!URL.canParse(value)) return false;
  const { protocol, username, password } = new URL(value);
  return /^https?:$/.test(protocol) && username === '' && password === '';
}

/** URL of a webhook endpoint. */
export const webhookUrlField = z
  .string()
  .max(1_024)
  .refine(isWebAddress, 'must be an http:// or https:// address without a password');

/** The token in a mailed link. */
export const tokenField = z.string().min(1).max(256);

/** An authenticator app's code or a recovery code, as typed. */
export const codeField = z.string().min(1).max(64);

export const roleField = z.enum(['owner', 'admin', 'developer', 'viewer']);
