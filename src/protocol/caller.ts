// An HTTP request as the caller of a generation, and what the log says of the client's own user.
import { createHash } from 'node:crypto';
import type { WireShape } from '../errors.js';
import type { Exchange } from '../http/exchange.js';
import type { Caller } from './generation-run.js';

/** `endpoint`: the route's path, for metrics. `shape`: the dialect of the rate-limit headers. */
export function callerOf(exchange: Exchange, endpoint: string, shape: WireShape): Caller {
  return {
    identity: exchange.identity, requestId: exchange.requestId, endpoint, shape, receivedAt: exchange.receivedAt,
    get aborted() { return exchange.aborted; },
    onAborted: (callback) => exchange.onAborted(callback),
    charged: (characters, work) => exchange.charged(characters, work),
    setHeader: (name, value) => exchange.setHeader(name, value),
    annotate: (fields) => exchange.annotate(fields),
  };
}

/** Tells one organization's users apart in the log without naming them. */
export function annotateEndUser(exchange: Exchange, endUser: string | null): void {
  if (endUser === null) return;
  const hash = createHash('sha256').update(`${exchange.identity.organizationId}\n${endUser}`);
  exchange.annotate({ end_user: hash.digest('base64url').slice(0, 16) });
}
