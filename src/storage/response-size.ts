// The size of stored items that counts toward the chain limit: the characters of their text, plus a constant for each
// part, because many small parts also take time. No side effects.

import { apiError } from '../shared/errors.js';
import type { ApiError } from '../shared/errors.js';

/** Maximum size of a chain: far larger than any context window, but small enough to be read in one piece. */
export const MAX_CHAIN_SIZE = 64 * 1024 * 1024;

/** Maximum number of responses per chain. Reading a chain this long takes tens of milliseconds. */
export const MAX_CHAIN = 10_000;

/** How many seconds a background response's event log is kept after its end. */
export const LOG_S = 3_600;

/** Returns the 422 error for a chain with too many responses. */
export const chainTooDeep = (): ApiError =>
  apiError(
    'response_not_usable',
    `The chain of this response has more than ${MAX_CHAIN} responses. Start a new chain with the content you need.`,
    'previous_response_id',
  );

/** Returns the 422 error for a chain with too much text. */
export const chainTooLong = (): ApiError =>
  apiError(
    'response_not_usable',
    'The chain of this response is too long to be read. Start a new chain with the content you need.',
    'previous_response_id',
  );

const PART_SIZE = 128; // per item, and per part of an item
const VALUE_SIZE = 8; // per object or list within a part, such as one token's logprobs

/** `item`: in API form, without image data. */
export function itemSize(item: Readonly<Record<string, unknown>>): number {
  let size = PART_SIZE;
  for (const value of Object.values(item)) {
    if (!Array.isArray(value)) size += valueSize(value);
    else for (const part of value as unknown[]) size += PART_SIZE + valueSize(part);
  }
  return size;
}

function valueSize(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  let size = VALUE_SIZE;
  for (const inner of Object.values(value)) size += valueSize(inner);
  return size;
}
