// Time range parameters `from` and `to` of dashboard API lists.

import { apiError } from '../../shared/errors.js';

/** Start (inclusive) and end (exclusive), in milliseconds since the Unix epoch. Throws ApiError 400. */
export function readTimes(query: URLSearchParams): { from: number | null; to: number | null } {
  const from = readTime(query, 'from');
  const to = readTime(query, 'to');
  if (from !== null && to !== null && from >= to)
    throw apiError('invalid_query_parameter', 'from must be before to.', 'from');
  return { from, to };
}

/** A date, an RFC 3339 time or seconds since the Unix epoch. Returns milliseconds. Throws ApiError 400. */
export function readTime(query: URLSearchParams, name: string): number | null {
  const text = query.get(name);
  if (text === null || text === '') return null;
  const at = /^\d{9,11}$/.test(text)
    ? Number(text) * 1000
    : /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/.test(text)
      ? Date.parse(text)
      : NaN;
  // The latest time is the end of the year 9999, because the response's date format cannot represent later years.
  if (!Number.isFinite(at) || at < 0 || at > 253_402_300_799_000)
    throw apiError('invalid_query_parameter', `${name} must be a date or a time such as 2026-11-21T00:00:00Z.`, name);
  return at;
}
