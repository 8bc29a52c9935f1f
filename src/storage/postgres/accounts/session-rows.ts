// Browser session rows, keyed by the SHA-256 of their cookie, so that a copy of the database cannot be used to sign in.
// Nothing is cached, so a session that ends is immediately invalid in every process. Functions that write must be
// called within a transaction.

import { newAccountId } from '../../../shared/ids.js';
import type { Queryable } from '../database.js';
import {
  MAX_SESSIONS,
  newCookie,
  SEEN_MS,
  SESSION_IDLE_MS,
  SESSION_MS,
  sessionHash,
  shownUserAgent,
} from '../../../accounts/sessions.js';
import type { Session } from '../../../accounts/sessions.js';

export interface SessionRow {
  id: string;
  user_id: string;
  created_at: number;
  last_seen_at: number;
  ip: string;
  user_agent: string;
}

export const SESSION_COLUMNS = 'id, user_id, created_at, last_seen_at, ip, user_agent';
/** SQL condition for a valid session. $1: now minus the maximum lifetime, $2: now minus the maximum idle time. */
export const LASTS = 'sessions.created_at > $1 AND sessions.last_seen_at > $2';

export const lastingFrom = (now: number): [number, number] => [now - SESSION_MS, now - SESSION_IDLE_MS];

export const sessionOf = (row: SessionRow): Session => ({
  id: row.id,
  userId: row.user_id,
  createdAt: row.created_at,
  lastSeenAt: row.last_seen_at,
  ip: row.ip,
  userAgent: row.user_agent,
});

/** Resolves to the cookie's value. */
export async function beginSession(
  sql: Queryable,
  now: number,
  userId: string,
  ip: string,
  userAgent: string,
): Promise<string> {
  // Leaves at most MAX_SESSIONS - 1 other sessions: ends the least recently used ones and erases expired ones.
  await sql.query(
    `DELETE FROM sessions WHERE user_id = $3 AND id NOT IN (
       SELECT id FROM sessions WHERE ${LASTS} AND user_id = $3 ORDER BY last_seen_at DESC LIMIT $4)`,
    [...lastingFrom(now), userId, MAX_SESSIONS - 1],
  );
  const cookie = newCookie();
  await sql.query(
    'INSERT INTO sessions (hash, id, user_id, created_at, last_seen_at, ip, user_agent) VALUES ($1, $2, $3, $4, $4, $5, $6)',
    [sessionHash(cookie), newAccountId('sess'), userId, now, ip, shownUserAgent(userAgent)],
  );
  return cookie;
}

/** Records that a session is being used, at a limited rate. A failure does not affect the request. */
export async function noteSeen(sql: Queryable, now: number, cookie: string, { lastSeenAt }: Session): Promise<void> {
  if (now - lastSeenAt < SEEN_MS) return;
  await sql.query('UPDATE sessions SET last_seen_at = $2 WHERE hash = $1 AND last_seen_at < $2', [
    sessionHash(cookie),
    now,
  ]);
}

/** Most recently used first. */
export async function sessionsOf(sql: Queryable, now: number, userId: string): Promise<Session[]> {
  const rows = await sql.query<SessionRow>(
    `SELECT ${SESSION_COLUMNS} FROM sessions WHERE ${LASTS} AND user_id = $3 ORDER BY last_seen_at DESC, id`,
    [...lastingFrom(now), userId],
  );
  return rows.map(sessionOf);
}

/** Ends a session of any user. */
export async function endSessionOfCookie(sql: Queryable, cookie: string): Promise<void> {
  await sql.query('DELETE FROM sessions WHERE hash = $1', [sessionHash(cookie)]);
}

/** Resolves to false if the user does not have this session. */
export async function endSession(sql: Queryable, userId: string, id: string): Promise<boolean> {
  return (await sql.query('DELETE FROM sessions WHERE user_id = $1 AND id = $2 RETURNING id', [userId, id])).length > 0;
}

/** Ends all sessions of the user except `except`. */
export async function endSessions(sql: Queryable, userId: string, except: string | null = null): Promise<void> {
  await sql.query('DELETE FROM sessions WHERE user_id = $1 AND id IS DISTINCT FROM $2', [userId, except]);
}

export async function sweepSessions(sql: Queryable, now: number): Promise<void> {
  await sql.query(`DELETE FROM sessions WHERE NOT (${LASTS})`, lastingFrom(now));
}
