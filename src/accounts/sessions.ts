// Browser sessions as data: their lifetime, cookie and CSRF token.

import { createHash, createHmac, randomBytes } from 'node:crypto';

export const SESSION_IDLE_MS = 12 * 3_600_000;
export const SESSION_MS = 30 * 24 * 3_600_000;
/** Maximum number of sessions per user. When it is exceeded, the least recently used session is removed. */
export const MAX_SESSIONS = 50;
/** Resolution of the last-use time. One write per request would be too expensive. */
export const SEEN_MS = 60_000;
const MAX_USER_AGENT = 256;

export interface Session {
  id: string; // sess_…
  userId: string;
  createdAt: number; // milliseconds
  lastSeenAt: number;
  ip: string;
  userAgent: string;
}

/**
 * When the session ends, in milliseconds since the Unix epoch. Using the session extends it, up to a fixed maximum age.
 */
export function sessionEnd(session: Session): number {
  return Math.min(session.createdAt + SESSION_MS, session.lastSeenAt + SESSION_IDLE_MS);
}

/**
 * The CSRF token that requests with side effects must send. Derived from the cookie, which scripts cannot read, so it
 * needs no storage.
 */
export function csrfToken(secret: string): string {
  return createHmac('sha256', secret).update('monolith csrf token').digest('base64url');
}

/** 256 random bits. The cookie itself is not stored. */
export const newCookie = (): string => randomBytes(32).toString('base64url');

/** Whether the text has the format of a cookie. */
export const isCookie = (text: string): boolean => /^[\w-]{43}$/.test(text);

/** The stored form of a cookie. */
export const sessionHash = (cookie: string): string => createHash('sha256').update(cookie).digest('hex');

export const shownUserAgent = (userAgent: string): string => userAgent.slice(0, MAX_USER_AGENT);
