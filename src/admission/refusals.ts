// Errors for requests that exceed a limit, for both local and shared counters. No side effects.

import { apiError } from '../shared/errors.js';
import type { ApiError, ErrorFormat } from '../shared/errors.js';
import type { LimitScope } from './limit-scopes.js';
import { monthName } from './month-use.js';

/** Returns the rate-limit headers at the time of the rejection. */
export type HeadersOf = (format: ErrorFormat) => [string, string][];

type LimitOwner = LimitScope['owner'];

/** The request needs more concurrency than the limit can ever allow. */
export const tooManyChoices = (owner: LimitOwner, n: number, limit: number, headers: HeadersOf): ApiError =>
  apiError(
    'concurrency_limit_exceeded',
    `This request has ${n} choices, which run concurrently; the concurrency limit of the ${owner} is ${limit}.`,
    null,
    { retryAfterMs: 60_000, headers },
  );

export const noSlot = (
  owner: LimitOwner,
  model: string,
  limit: number,
  retryAfterMs: number,
  headers: HeadersOf,
): ApiError =>
  apiError(
    'concurrency_limit_exceeded',
    `This ${owner} has too many unfinished requests on ${model}; the limit is ${limit}.`,
    null,
    { retryAfterMs, headers },
  );

export const tooManyRequests = (
  owner: LimitOwner,
  model: string,
  limit: number,
  retryAfterMs: number,
  headers: HeadersOf,
): ApiError =>
  apiError(
    'rpm_limit_exceeded',
    `Too many requests per minute for this ${owner} on ${model}; the limit is ${limit}.`,
    null,
    { retryAfterMs, headers },
  );

export const tooManyTokens = (
  owner: LimitOwner,
  model: string,
  { reserved, limit }: { reserved: number; limit: number },
  retryAfterMs: number,
  headers: HeadersOf,
): ApiError =>
  apiError(
    'tpm_limit_exceeded',
    `Too many tokens per minute for this ${owner} on ${model}: this request needs ${reserved}, the limit is ${limit}.`,
    null,
    { retryAfterMs, headers },
  );

/** Builds the error for a permanent rejection: retrying the request later would not help. */
export const promptTooLong = (
  owner: LimitOwner,
  model: string,
  prompt: number,
  limit: number,
  headers: HeadersOf,
): ApiError =>
  apiError(
    'request_exceeds_tpm_limit',
    `The prompt has ${prompt} tokens; the limit of the ${owner} is ${limit} tokens per minute on ${model}.`,
    null,
    { headers },
  );

/** `month` is a number such as 202611. */
export const capUsed = (cap: number, month: number, headers: HeadersOf): ApiError =>
  apiError('insufficient_quota', `This organization has used its ${cap} tokens for ${monthName(month)}.`, null, {
    headers,
  });

export const countsFull = (): ApiError =>
  apiError(
    'capacity_exhausted',
    'The server is already tracking limits for its maximum number of organizations. Retry later.',
    null,
    {
      retryAfterMs: 60_000,
    },
  );

/**
 * Estimated time until one of `count` running requests finishes. If each request takes `meanMs` and all are at random
 * points in their run, the first one finishes after about mean / (count + 1).
 */
export const nextSlotMs = (meanMs: number, count: number): number => Math.max(1000, meanMs / (count + 1));
