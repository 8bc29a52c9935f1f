// Fields that several bodies of the dashboard API have, each with its bounds.

import { z } from 'zod';
import { MAX_PASSWORD_BYTES, MIN_PASSWORD_CHARACTERS } from '../../accounts/passwords.js';
import { normalEmail } from '../../accounts/users.js';
import type { ErrorCode } from '../../shared/errors.js';

const issue = (api: ErrorCode, message: string): { code: 'custom'; params: { api: ErrorCode }; message: string } => ({
  code: 'custom',
  params: { api },
  message,
});

/** Of a person or an organization: one line. */
export const nameField = z
  .string()
  .trim()
  .min(1)
  .max(100)
  .refine((text) => !/\p{Cc}|\p{Cf}/u.test(text), 'must not contain control characters');

/** As normalEmail() gives it. What is behind the @ is for mail servers to judge. */
export const emailField = z
  .string()
  .max(254)
  .transform(normalEmail)
  .superRefine((email, context) => {
    // What cannot be seen would make two accounts look like one.
    if (!/^[^\s@"<>(),:;\\[\]]{1,64}@[^\s@"<>(),:;\\[\]]{1,253}$/.test(email) || /\p{Cc}|\p{Cf}/u.test(email))
      context.addIssue(issue('invalid_value', 'must be an e-mail address'));
  });

/** A password that is chosen. */
export const newPasswordField = z.string().superRefine((password, context) => {
  const normal = password.normalize('NFKC');
  if (Buffer.byteLength(normal) > MAX_PASSWORD_BYTES)
    context.addIssue(issue('string_too_long', `may have at most ${MAX_PASSWORD_BYTES} bytes`));
  else if ([...normal].length < MIN_PASSWORD_CHARACTERS)
    context.addIssue(issue('invalid_value', `must have at least ${MIN_PASSWORD_CHARACTERS} characters`));
});

/** A password to be checked: longer ones belong to nobody. */
export const passwordField = z.string().min(1).max(MAX_PASSWORD_BYTES);

/** Of a link. */
export const tokenField = z.string().min(1).max(256);

/** Of an authenticator app or a recovery code, as people type them. */
export const codeField = z.string().min(1).max(64);

export const roleField = z.enum(['owner', 'admin', 'developer', 'viewer']);
