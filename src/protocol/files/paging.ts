// Reads the query parameters of GET /v1/files in both API formats. Pure.

import { apiError } from '../../shared/errors.js';
import { isFileId } from '../../shared/ids.js';
import { queryList } from '../../http/query.js';
import type { FileListQuery } from '../../storage/file-store.js';
import { ALL_PURPOSES } from './fields.js';

const MAX_LIMIT = 10_000;
const DEFAULT_LIMIT = 10_000;
const MAX_MESSAGES_LIMIT = 1_000;
const DEFAULT_MESSAGES_LIMIT = 20;
const MAX_IDS = 100;

/** Reads OpenAI's parameters. Throws ApiError 400 or 422. */
export function readFileQuery(query: URLSearchParams): FileListQuery {
  const order = query.get('order') ?? 'desc';
  if (order !== 'asc' && order !== 'desc')
    throw apiError('invalid_value', 'order must be one of "asc", "desc".', 'order');
  const purpose = query.get('purpose') ?? undefined;
  if (purpose !== undefined && !(ALL_PURPOSES as readonly string[]).includes(purpose))
    throw apiError(
      'invalid_value',
      `purpose must be one of ${ALL_PURPOSES.map((one) => `"${one}"`).join(', ')}.`,
      'purpose',
    );
  return {
    purpose,
    newestFirst: order === 'desc',
    after: cursor(query, 'after'),
    limit: readLimit(query, DEFAULT_LIMIT, MAX_LIMIT),
  };
}

export interface MessagesFileQuery extends FileListQuery {
  /** IDs of the files to return; null = list all files. If set, the other parameters have no effect. */
  readonly ids: readonly string[] | null;
  /** Whether the page ends at `before_id`. It is then read from the oldest to the newest file and reversed. */
  readonly isBackwards: boolean;
}

/** Reads Anthropic's parameters. Lists are ordered from the newest to the oldest file. Throws ApiError 400 or 422. */
export function readMessagesFileQuery(query: URLSearchParams): MessagesFileQuery {
  const cursors = ['page', 'after_id', 'before_id'].filter((name) => query.get(name));
  const ids = [...new Set(queryList(query, 'ids'))];
  if (cursors.length > 1 || (ids.length > 0 && (cursors.length > 0 || query.has('limit'))))
    throw apiError(
      'invalid_query_parameter',
      'Only one of page, after_id, before_id and ids is allowed, and ids allows no limit.',
      cursors.at(-1) ?? 'ids',
    );
  if (ids.length > MAX_IDS) throw apiError('invalid_query_parameter', `At most ${MAX_IDS} ids are allowed.`, 'ids');
  const isBackwards = cursors[0] === 'before_id';
  return {
    newestFirst: !isBackwards,
    isBackwards,
    after: cursor(query, cursors[0] ?? 'page'),
    limit: readLimit(query, DEFAULT_MESSAGES_LIMIT, MAX_MESSAGES_LIMIT),
    ids: ids.length === 0 ? null : ids,
  };
}

function cursor(query: URLSearchParams, name: string): string | null {
  const id = query.get(name) ?? '';
  if (id === '') return null;
  if (!isFileId(id)) throw apiError('invalid_query_parameter', `${name} must be a file ID.`, name);
  return id;
}

function readLimit(query: URLSearchParams, initial: number, most: number): number {
  const limit = query.get('limit');
  if (limit === null) return initial;
  if (!/^-?\d{1,9}$/.test(limit)) throw apiError('invalid_query_parameter', 'limit must be an integer.', 'limit');
  if (Number(limit) < 1 || Number(limit) > most)
    throw apiError('value_out_of_range', `limit must be between 1 and ${most}.`, 'limit');
  return Number(limit);
}
