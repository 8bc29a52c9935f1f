// The operators' live view of the engines.

import type { Exchange, Route } from '../../http/exchange.js';
import type { SignIns } from '../../accounts/sign-ins.js';
import { sessionCookie } from '../api/cookie.js';
import type { OperatorGuard } from './operator-guard.js';
import type { LiveView } from './live-view.js';

export interface LiveDeps {
  live: Pick<LiveView, 'watch'>;
  signIns: Pick<SignIns, 'find'>;
}

export function liveRoutes(guard: OperatorGuard, { live, signIns }: LiveDeps): Route[] {
  return [
    guard({
      method: 'GET',
      path: '/live',
      handler: ({ exchange, userId }) =>
        live.watch(exchange, userId === null ? () => Promise.resolve(true) : () => isOperator(exchange, userId)),
    }),
  ];

  /** Whether the session that opened the stream still exists and its user is still an operator. */
  async function isOperator(exchange: Exchange, userId: string): Promise<boolean> {
    const cookie = sessionCookie(exchange);
    const signedIn = cookie === null ? null : await signIns.find(cookie);
    return signedIn !== null && signedIn.user.id === userId && signedIn.user.operator;
  }
}
