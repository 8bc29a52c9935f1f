// Single-use tokens for links that set a new password, or confirm a current or new email address.

import { createHash, randomBytes } from 'node:crypto';
import { apiError } from '../shared/errors.js';

export const TOKEN_MS = 3_600_000;

export type TokenPurpose = 'password' | 'email' | 'new-email';

export const TOKEN_PURPOSES: readonly TokenPurpose[] = ['password', 'email', 'new-email'];

export interface Token {
  userId: string;
  purpose: TokenPurpose;
  expiresAt: number; // milliseconds
  /** Whether the token was sent only by email. If so, its holder can evidently read email to that address. */
  mailed: boolean;
  /** For 'new-email': the new address. */
  email?: string;
}

/** 256 random bits. The token itself is not stored. */
export const newToken = (): string => randomBytes(32).toString('base64url');

/** The stored form of a token. */
export const tokenHash = (token: string): string => createHash('sha256').update(token).digest('hex');

export const accountGone = (): Error => apiError('invalid_token', 'This account no longer exists.', 'token');

export const invalidLink = (): Error =>
  apiError(
    'invalid_token',
    'This link is no longer valid: it works once and expires after one hour. Request a new one.',
    'token',
  );
