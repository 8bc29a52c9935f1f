// A limit scope's state as reported by Redis, adjusted for the time since then and for this reservation. No side
// effects.

import { bucketState } from '../counters.js';
import type { LimitScope } from '../limit-scopes.js';
import { rateLimitHeaders, tighter, type LimitState } from '../headers.js';
import type { ErrorFormat } from '../../shared/errors.js';

const MINUTE_US = 60_000_000;

/**
 * Times until the buckets are full, in µs, the number of unfinished requests, and the mean duration of a request in ms.
 */
export interface LimitSnapshot {
  rpmUs: number;
  tpmUs: number;
  count: number;
  meanMs: number;
}

/** Reads the four values that the scripts return for each limit scope. */
export function readSnapshots(answer: readonly unknown[], from: number): LimitSnapshot[] {
  const seen: LimitSnapshot[] = [];
  for (let at = from; at + 3 < answer.length; at += 4) {
    const [rpmUs, tpmUs, count, meanMs] = answer.slice(at, at + 4).map(Number) as [number, number, number, number];
    seen.push({ rpmUs, tpmUs, count, meanMs });
  }
  return seen;
}

export const costUs = (amount: number, limit: number): number =>
  amount === limit ? MINUTE_US : (amount / limit) * MINUTE_US;

/** Milliseconds until a bucket has `amount`, or 0 if it has enough now. `missingUs`: time until the bucket is full. */
export function waitMs(missingUs: number, amount: number, limit: number): number {
  const over = missingUs + costUs(amount, limit) - MINUTE_US;
  return over > 1 ? Math.max(1, over / 1000) : 0; // the script's tolerance
}

/** `laterUs`: time since the state was reported, in µs. */
export function stateOf({ limits }: LimitScope, seen: LimitSnapshot, laterUs: number): LimitState {
  const bucket = (limit: number | null, missingUs: number): LimitState['requests'] =>
    limit === null ? null : bucketState(limit, Math.max(0, missingUs - laterUs) * 1000);
  return {
    requests: bucket(limits.rpm, seen.rpmUs),
    tokens: bucket(limits.tpm, seen.tpmUs),
    concurrency:
      limits.concurrency === null
        ? null
        : { limit: limits.concurrency, remaining: Math.max(0, limits.concurrency - seen.count) },
  };
}

export function headersOf(
  scopes: readonly LimitScope[],
  seen: readonly LimitSnapshot[],
  laterUs: number,
  format: ErrorFormat,
): [string, string][] {
  const [organization, key] = scopes.map((scope, at) => stateOf(scope, seen[at] as LimitSnapshot, laterUs));
  return rateLimitHeaders(
    key === undefined ? (organization as LimitState) : tighter(organization as LimitState, key),
    format,
    Date.now(),
  );
}
