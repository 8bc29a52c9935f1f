// Rows of single-use tokens for links that are valid for an hour, keyed by their SHA-256. Only the most recent token
// per user and purpose is valid. Functions that write must be called within a transaction.

import type { Queryable } from '../database.js';
import { invalidLink, newToken, TOKEN_MS, tokenHash } from '../../../accounts/tokens.js';
import type { Token, TokenPurpose } from '../../../accounts/tokens.js';

interface TokenRow {
  user_id: string;
  purpose: TokenPurpose;
  expires_at: number;
  mailed: boolean;
  email: string | null;
}

/** The returned token itself is not stored. */
export async function createToken(
  sql: Queryable,
  {
    now,
    userId,
    purpose,
    mailed,
    email = null,
  }: { now: number; userId: string; purpose: TokenPurpose; mailed: boolean; email?: string | null | undefined },
): Promise<string> {
  const token = newToken();
  await sql.query(
    `INSERT INTO link_tokens (user_id, purpose, hash, expires_at, mailed, email) VALUES ($1, $2, $3, $4, $5, $6)
     ON CONFLICT (user_id, purpose) DO UPDATE SET hash = excluded.hash, expires_at = excluded.expires_at, mailed = excluded.mailed, email = excluded.email`,
    [userId, purpose, tokenHash(token), now + TOKEN_MS, mailed, email],
  );
  return token;
}

/** Rejects with ApiError 400 invalid_token. */
export async function findToken(sql: Queryable, now: number, token: string, purpose: TokenPurpose): Promise<Token> {
  const [row] = await sql.query<TokenRow>(
    'SELECT user_id, purpose, expires_at, mailed, email FROM link_tokens WHERE hash = $1 AND purpose = $2 AND expires_at > $3',
    [tokenHash(token), purpose, now],
  );
  if (row === undefined) throw invalidLink();
  return {
    userId: row.user_id,
    purpose: row.purpose,
    expiresAt: row.expires_at,
    mailed: row.mailed,
    ...(row.email === null ? {} : { email: row.email }),
  };
}

/** Like findToken(), but also invalidates the token. */
export async function useToken(sql: Queryable, now: number, token: string, purpose: TokenPurpose): Promise<Token> {
  const found = await findToken(sql, now, token, purpose);
  await removeToken(sql, found.userId, purpose);
  return found;
}

export async function removeToken(sql: Queryable, userId: string, purpose: TokenPurpose): Promise<void> {
  await sql.query('DELETE FROM link_tokens WHERE user_id = $1 AND purpose = $2', [userId, purpose]);
}

export async function removeTokens(sql: Queryable, userId: string): Promise<void> {
  await sql.query('DELETE FROM link_tokens WHERE user_id = $1', [userId]);
}

export async function sweepTokens(sql: Queryable, now: number): Promise<void> {
  await sql.query('DELETE FROM link_tokens WHERE expires_at <= $1', [now]);
}
