// Signed-in browsers as data: how long a session lasts, and what belongs to its cookie.

import { createHash, createHmac, randomBytes } from 'node:crypto';

export const SESSION_IDLE_MS = 12 * 3_600_000;
export const SESSION_MS = 30 * 24 * 3_600_000;
/** Of one user; the one unused for longest makes room. */
export const MAX_SESSIONS = 50;
/** How exactly the time of last use is known: a write per request would be one too many. */
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

/** Milliseconds; unless it is used again. */
export function sessionEnd(session: Session): number {
  return Math.min(session.createdAt + SESSION_MS, session.lastSeenAt + SESSION_IDLE_MS);
}

/** What changing requests of a session must bring along: derived of the cookie, which pages cannot read, so it needs no storage. */
export function csrfToken(secret: string): string {
  return createHmac('sha256', secret).update('monolith csrf token').digest('base64url');
}

/** 256 random bits, which are stored nowhere. */
export const newCookie = (): string => randomBytes(32).toString('base64url');

/** Whether it looks like one at all. */
export const isCookie = (text: string): boolean => /^[\w-]{43}$/.test(text);

/** What is stored of a cookie. */
export const sessionHash = (cookie: string): string => createHash('sha256').update(cookie).digest('hex');

export const shownUserAgent = (userAgent: string): string => userAgent.slice(0, MAX_USER_AGENT);
