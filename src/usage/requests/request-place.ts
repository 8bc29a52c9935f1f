// Sort key of a request-log entry in time order, and the size that counts toward the log's byte limit. No side effects.

import { apiError } from '../../shared/errors.js';
import type { RequestEntry, RequestText } from '../../shared/request-entry.js';

export type Place = [at: number, requestId: string];

/** Size of a row with its index entries, including keys. */
const ROW_BYTES = 720;
/** Maximum number of entries scanned per page. Therefore, a page may have few rows if the filter is selective. */
export const MAX_SCANNED = 20_000;

export const placeId = ([at, requestId]: Place): string => `${at}.${requestId}`;

/** Returns null if this is not the ID of an entry. */
export function placeIn(id: string): Place | null {
  const [, at, requestId] = /^(\d{1,15})\.(req_[0-9A-Za-z]{1,64})$/.exec(id) ?? [];
  return at === undefined || requestId === undefined ? null : [Number(at), requestId];
}

const REQUEST_ID = /^req_[0-9A-Za-z]{1,64}$/;
export const isRequestId = (text: string): boolean => REQUEST_ID.test(text);

/** Throws an ApiError 400 that names `param`. */
export function placeOf(id: string, param: string): Place {
  const place = placeIn(id);
  if (place === null)
    throw apiError('invalid_query_parameter', `${param} must be the \`next\` value of the previous page.`, param);
  return place;
}

/** The size without the text. */
export function entryBytes({ parameters, message, client }: EntrySize): number {
  const texts = (message?.length ?? 0) + (client == null ? 0 : client.address.length + client.userAgent.length);
  return ROW_BYTES + texts + (parameters === null ? 0 : 32 * Object.keys(parameters).length);
}

type EntrySize = Pick<RequestEntry, 'parameters' | 'message' | 'client'>;

export function textBytes({ prompt, answer, difference }: RequestText): number {
  let bytes = difference === undefined ? 0 : Buffer.byteLength(Object.values(difference).join(''));
  for (const { text } of [...prompt, ...answer]) bytes += 32 + Buffer.byteLength(text);
  return bytes;
}
