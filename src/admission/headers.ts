// The rate-limit headers of the generation endpoints, with each format's names and units. No side effects.

import type { ErrorFormat } from '../shared/errors.js';
import type { BucketState } from './counters.js';

export interface LimitState {
  requests: BucketState | null; // null: the limit is off, and no header is sent
  tokens: BucketState | null;
  concurrency: { limit: number; remaining: number } | null;
}

/** Combines two limits that both apply, by using the one with less remaining for each kind of limit. */
export function tighter(one: LimitState, other: LimitState): LimitState {
  return {
    requests: less(one.requests, other.requests),
    tokens: less(one.tokens, other.tokens),
    concurrency: less(one.concurrency, other.concurrency),
  };
}

function less<T extends { limit: number; remaining: number }>(one: T | null, other: T | null): T | null {
  if (one === null || other === null) return one ?? other;
  if (one.remaining !== other.remaining) return one.remaining < other.remaining ? one : other;
  return one.limit <= other.limit ? one : other;
}

/** `nowMs`: wall-clock time, used to compute the reset times in the messages format. */
export function rateLimitHeaders(state: LimitState, format: ErrorFormat, nowMs: number): [string, string][] {
  const headers: [string, string][] = [];
  const name = (field: 'limit' | 'remaining' | 'reset', what: string): string =>
    format === 'messages' ? `anthropic-ratelimit-${what}-${field}` : `x-ratelimit-${field}-${what}`;
  const reset = (ms: number): string => (format === 'messages' ? new Date(nowMs + ms).toISOString() : duration(ms));
  for (const [what, bucket] of [
    ['requests', state.requests],
    ['tokens', state.tokens],
  ] as const) {
    if (bucket === null) continue;
    headers.push([name('limit', what), String(bucket.limit)]);
    headers.push([name('remaining', what), String(bucket.remaining)]);
    headers.push([name('reset', what), reset(bucket.resetMs)]);
  }
  if (state.concurrency !== null) {
    headers.push([name('limit', 'concurrency'), String(state.concurrency.limit)]);
    headers.push([name('remaining', 'concurrency'), String(state.concurrency.remaining)]);
  }
  return headers;
}

/** 12 → "12ms", 6000 → "6s", 60000 → "1m0s". Rounded up, so that the bucket is certain to be full after that time. */
export function duration(ms: number): string {
  const whole = Math.ceil(ms);
  if (whole < 1000) return `${whole}ms`;
  const seconds = Math.ceil(whole / 1000);
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}
