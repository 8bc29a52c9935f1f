// What a request is told that the limits refuse, wherever they are counted. Pure.

import { apiError } from '../shared/errors.js';
import type { ApiError, WireShape } from '../shared/errors.js';
import type { Gate } from './gates.js';
import { monthName } from './month-use.js';

/** How the limits stand at the refusal. */
export type HeadersOf = (shape: WireShape) => [string, string][];

type Whose = Gate['whose'];

/** More at once than there are places at all. */
export const tooManyChoices = (whose: Whose, n: number, limit: number, headers: HeadersOf): ApiError =>
  apiError(
    'concurrency_limit_exceeded',
    `This request asks for ${n} choices at once; the limit of the ${whose} is ${limit}.`,
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
    `Too many requests of this ${whose} are unfinished on ${model}; the limit is ${limit}.`,
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
    `Too many requests per minute of this ${whose} on ${model}; the limit is ${limit}.`,
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
    `Too many tokens per minute of this ${whose} on ${model}: this request reserves ${reserved}, the limit is ${limit}.`,
    null,
    { retryAfterMs, headers },
  );

/** For good: no waiting makes room for it. */
export const promptTooLong = (
  whose: Whose,
  model: string,
  prompt: number,
  limit: number,
  headers: HeadersOf,
): ApiError =>
  apiError(
    'request_exceeds_tpm_limit',
    `The prompt alone has ${prompt} tokens; the limit of the ${whose} is ${limit} tokens per minute on ${model}.`,
    null,
    { headers },
  );

/** `month`: 202611. */
export const capUsed = (cap: number, month: number, headers: HeadersOf): ApiError =>
  apiError('insufficient_quota', `This organization has used its ${cap} tokens of ${monthName(month)}.`, null, {
    headers,
  });

export const countsFull = (): ApiError =>
  apiError('capacity_exhausted', 'This server counts for too many organizations at once.', null, {
    retryAfterMs: 60_000,
  });

/** Requests that take `meanMs` and are all at some point of it: the nearest of `count` ends after about mean / (count + 1). */
export const nextPlaceMs = (meanMs: number, count: number): number => Math.max(1000, meanMs / (count + 1));
