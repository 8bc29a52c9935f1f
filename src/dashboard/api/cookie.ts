// The session cookie: its name and attributes.

import { SESSION_MS } from '../../accounts/sessions.js';
import type { Exchange } from '../../http/exchange.js';
import type { DashboardOrigin } from '../origin.js';

const NAME = 'sid';
const ATTRIBUTES = 'HttpOnly; SameSite=Lax; Path=/';

/** The value, or null if the cookie is absent. */
export function sessionCookie(exchange: Exchange): string | null {
  return namedCookie(exchange, NAME);
}

/**
 * The value, or null if the cookie is absent. If the cookie occurs several times, returns the first value, because
 * browsers send the cookie with the most specific path first.
 */
export function namedCookie(exchange: Exchange, name: string): string | null {
  for (const pair of exchange.header('cookie').split(';')) {
    const equals = pair.indexOf('=');
    if (pair.slice(0, equals).trim() === name) return pair.slice(equals + 1).trim();
  }
  return null;
}

export function setSessionCookie(exchange: Exchange, origin: DashboardOrigin, secret: string): void {
  exchange.setHeader(
    'Set-Cookie',
    `${NAME}=${secret}; ${ATTRIBUTES}; Max-Age=${SESSION_MS / 1000}${secure(exchange, origin)}`,
  );
}

export function clearSessionCookie(exchange: Exchange, origin: DashboardOrigin): void {
  exchange.setHeader('Set-Cookie', `${NAME}=; ${ATTRIBUTES}; Max-Age=0${secure(exchange, origin)}`);
}

const secure = (exchange: Exchange, origin: DashboardOrigin): string => (origin.isHttps(exchange) ? '; Secure' : '');
