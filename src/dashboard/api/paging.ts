// Lists of the dashboard API: `limit` 1 … 100 (20) and `after`, the `next` of the page before.

import { apiError } from '../../errors.js';
import type { ListPage } from '../../wire/dashboard.js';

export interface Page { limit: number; after: string | null }

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 100;
const MAX_CURSOR = 256;

/** Throws ApiError 400 for what is no number, 422 for one out of range. */
export function readPage(query: URLSearchParams): Page {
  const text = query.get('limit');
  if (text !== null && !/^\d{1,9}$/.test(text)) throw apiError('invalid_query_parameter', 'limit must be a whole number.', 'limit');
  const limit = text === null ? DEFAULT_LIMIT : Number(text);
  if (limit < 1 || limit > MAX_LIMIT) throw apiError('value_out_of_range', `limit must be between 1 and ${MAX_LIMIT}.`, 'limit');
  const after = query.get('after');
  if (after !== null && (after === '' || after.length > MAX_CURSOR)) throw apiError('invalid_query_parameter', 'after must be the `next` of the page before.', 'after');
  return { limit, after };
}

/** A page of a list that is at hand whole. `after` that names no entry: 404 item_not_found. */
export function pageOf<T>(all: readonly T[], { limit, after }: Page, cursor: (entry: T) => string): ListPage<T> {
  const at = after === null ? -1 : all.findIndex((entry) => cursor(entry) === after);
  if (after !== null && at < 0) throw apiError('item_not_found', 'after names nothing of this list.', 'after');
  const data = all.slice(at + 1, at + 1 + limit);
  const last = data.at(-1);
  const more = at + 1 + limit < all.length;
  return { object: 'list', data, has_more: more, next: more && last !== undefined ? cursor(last) : null };
}
