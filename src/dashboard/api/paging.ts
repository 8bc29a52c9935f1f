// Pagination of dashboard API lists: `limit` from 1 to 100 (default: 20), and `after`, which is the `next` value from
// the previous page.

import { pageOf } from '../../accounts/page.js';
import type { Page } from '../../accounts/page.js';
import { apiError } from '../../shared/errors.js';
import type { ListPage } from '../../shared/wire/list.js';

export interface PageQuery {
  limit: number;
  after: string | null;
}

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 100;
const MAX_CURSOR = 256;

/** Throws ApiError 400 if a value is not a number, and 422 if it is out of range. */
export function readPage(query: URLSearchParams): PageQuery {
  const text = query.get('limit');
  if (text !== null && !/^\d{1,9}$/.test(text))
    throw apiError('invalid_query_parameter', 'limit must be a whole number.', 'limit');
  const limit = text === null ? DEFAULT_LIMIT : Number(text);
  if (limit < 1 || limit > MAX_LIMIT)
    throw apiError('value_out_of_range', `limit must be between 1 and ${MAX_LIMIT}.`, 'limit');
  const after = query.get('after');
  if (after !== null && (after === '' || after.length > MAX_CURSOR))
    throw apiError('invalid_query_parameter', 'after must be the `next` value of the previous page.', 'after');
  return { limit, after };
}

/** Returns one page of a list that is already in memory. Throws 404 item_not_found if `after` is not in the list. */
export function pageQueryOf<T>(
  all: readonly T[],
  { limit, after }: PageQuery,
  cursor: (entry: T) => string,
): ListPage<T> {
  return listPage(pageOf(all, limit, after, cursor), (entry) => entry);
}

/**
 * Converts a page to the response. Throws 404 item_not_found if the page is null, which means that `after` was not
 * found.
 */
export function listPage<T, O>(slice: Page<T> | null, shown: (entry: T) => O): ListPage<O> {
  if (slice === null) throw apiError('item_not_found', 'after does not name an entry of this list.', 'after');
  return { object: 'list', data: slice.data.map(shown), has_more: slice.next !== null, next: slice.next };
}
