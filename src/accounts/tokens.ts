// Tokens of links that may be used once: to choose a new password, to show that an address is one's own or is to be.

import { createHash, randomBytes } from 'node:crypto';
import { apiError } from '../shared/errors.js';

export const TOKEN_MS = 3_600_000;

export type TokenPurpose = 'password' | 'email' | 'new-email';

export const TOKEN_PURPOSES: readonly TokenPurpose[] = ['password', 'email', 'new-email'];

export interface Token {
  userId: string;
  purpose: TokenPurpose;
  expiresAt: number; // milliseconds
  /** It left by mail only, so whoever has it reads that address's mail. */
  mailed: boolean;
  /** Of 'new-email': the address. */
  email?: string;
}

/** 256 random bits, which are stored nowhere. */
export const newToken = (): string => randomBytes(32).toString('base64url');

/** What is stored of a token. */
export const tokenHash = (token: string): string => createHash('sha256').update(token).digest('hex');

export const accountGone = (): Error => apiError('invalid_token', 'This account is gone.', 'token');

export const invalidLink = (): Error =>
  apiError('invalid_token', 'This link is not valid any more: it works once, for an hour. Ask for a new one.', 'token');
