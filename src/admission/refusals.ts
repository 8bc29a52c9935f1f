// Errors for requests that exceed a limit, for local and shared counters. Pure.

import { apiError } from '../shared/errors.js';
import type { ApiError, WireShape } from '../shared/errors.js';
import type { Gate } from './gates.js';
import { monthName } from './month-use.js';

/** Returns the rate-limit headers at the time of the rejection. */
export type HeadersOf = (shape: WireShape) => [string, string][];

type Whose = Gate['whose'];

/** The request needs more concurrency than the limit allows at all. */
export const tooManyChoices = (whose: Whose, n: number, limit: number, headers: HeadersOf): ApiError =>
  apiError(
    'concurrency_limit_exceeded',
    `This request has ${n} choices, which run concurrently; the concurrency limit of the ${whose} is ${limit}.`,
    null,
    { retryAfterMs: 60_000, headers },
  );

export const noPlace = (
  whose: Whose,
  model: string,
  limit: number,
  retryAfterMs: number,
  headers: HeadersOf,
): ApiError =>
  apiError(
    'concurrency_limit_exceeded',
    `This ${whose} has too many unfinished requests on ${model}; the limit is ${limit}.`,
    null,
    { retryAfterMs, headers },
  );

export const tooManyRequests = (
  whose: Whose,
  model: string,
  limit: number,
  retryAfterMs: number,
  headers: HeadersOf,
): ApiError =>
  apiError(
    'rpm_limit_exceeded',
    `Too many requests per minute for this ${whose} on ${model}; the limit is ${limit}.`,
    null,
    { retryAfterMs, headers },
  );

export const tooManyTokens = (
  whose: Whose,
  model: string,
  reserved: number,
  limit: number,
  retryAfterMs: number,
  headers: HeadersOf,
): ApiError =>
  apiError(
    'tpm_limit_exceeded',
    `Too many tokens per minute for this ${whose} on ${model}: this request needs ${reserved}, the limit is ${limit}.`,
    null,
    { retryAfterMs, headers },
  );

/** A permanent rejection: waiting does not help. */
export const promptTooLong = (
  whose: Whose,
  model: string,
  prompt: number,
  limit: number,
  headers: HeadersOf,
): ApiError =>
  apiError(
    'request_exceeds_tpm_limit',
    `The prompt has ${prompt} tokens; the limit of the ${whose} is ${limit} tokens per minute on ${model}.`,
    null,
    { headers },
  );

/** `month`: 202611. */
export const capUsed = (cap: number, month: number, headers: HeadersOf): ApiError =>
  apiError('insufficient_quota', `This organization has used its ${cap} tokens for ${monthName(month)}.`, null, {
    headers,
  });

export const countsFull = (): ApiError =>
  apiError(
    'capacity_exhausted',
    'The server has reached the maximum number of organizations with active limits. Retry later.',
    null,
    {
      retryAfterMs: 60_000,
    },
  );

/**
 * Estimated time until one of `count` running requests ends. If each takes `meanMs` and they are at random points of
 * it, the first ends after about mean / (count + 1).
 */
export const nextPlaceMs = (meanMs: number, count: number): number => Math.max(1000, meanMs / (count + 1));
