// Reads the query parameters of lists that are returned in pages. No side effects.
import { apiError } from '../shared/errors.js';

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 100;

export interface PageQuery {
  limit: number;
  order: 'asc' | 'desc';
  after: string | null;
}

/** Throws ApiError invalid_query_parameter (400), value_out_of_range or invalid_value (422). */
export function readPageQuery(query: URLSearchParams, defaultOrder: PageQuery['order']): PageQuery {
  const limit = query.get('limit');
  if (limit !== null && !/^-?\d{1,9}$/.test(limit))
    throw apiError('invalid_query_parameter', 'limit must be an integer.', 'limit');
  const count = limit === null ? DEFAULT_LIMIT : Number(limit);
  if (count < 1 || count > MAX_LIMIT)
    throw apiError('value_out_of_range', `limit must be between 1 and ${MAX_LIMIT}.`, 'limit');
  const order = query.get('order') ?? defaultOrder;
  if (order !== 'asc' && order !== 'desc')
    throw apiError('invalid_value', 'order must be one of "asc", "desc".', 'order');
  return { limit: count, order, after: query.get('after') };
}
