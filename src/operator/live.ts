// Operators watch the engines while they work.

import { sessionCookie } from '../dashboard/api/cookie.js';
import type { Exchange, Route } from '../http/exchange.js';
import type { OperatorGuard } from './operator-guard.js';
import type { OperatorDeps } from './deps.js';

export function liveRoutes(guard: OperatorGuard, { live, directory }: Pick<OperatorDeps, 'live' | 'directory'>): Route[] {
  return [
    guard({
      method: 'GET', path: '/live',
      serve: ({ exchange, userId }) => live.watch(exchange, userId === null ? () => true : () => isOperator(exchange, userId)),
    }),
  ];

  /** Whether the session that opened the stream is still there, and its user an operator. */
  function isOperator(exchange: Exchange, userId: string): boolean {
    const secret = sessionCookie(exchange);
    const session = secret === null ? undefined : directory.sessions.find(secret);
    const user = session?.userId === userId ? directory.users.get(userId) : undefined;
    return user !== undefined && user.operator && !user.locked;
  }
}
