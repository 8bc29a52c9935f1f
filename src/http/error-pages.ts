// Complete HTTP responses for requests that the parser rejects, before there is an Exchange. No side effects.

import { apiError, chatErrorBody } from '../shared/errors.js';
import type { ErrorCode } from '../shared/error-codes.js';

/** `param`: the name of the header at fault. */
export function errorPage(code: ErrorCode, message: string, param: string | null = null): string {
  const body = JSON.stringify(chatErrorBody(apiError(code, message, param)));
  return `HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\nConnection: close\r\n\r\n${body}`;
}

export const HEADERS_TOO_LARGE_PAGE = errorPage('headers_too_large', 'The headers are too large.');

/** Returns the response to a request that the parser of Node.js rejected. */
export function parserErrorPage({ code, reason = 'malformed' }: NodeJS.ErrnoException & { reason?: string }): string {
  if (code === 'HPE_HEADER_OVERFLOW') return HEADERS_TOO_LARGE_PAGE;
  if (code === 'HPE_UNEXPECTED_CONTENT_LENGTH')
    return errorPage('invalid_header', 'The request has more than one Content-Length header.', 'Content-Length');
  // Node.js also uses this code for Transfer-Encoding together with Content-Length.
  if (code === 'HPE_INVALID_TRANSFER_ENCODING' && !reason.includes('Content-Length')) return TRANSFER_ENCODING_PAGE;
  return errorPage('malformed_http', `The request is not valid HTTP: ${reason}.`);
}

export const TRANSFER_ENCODING_PAGE = errorPage(
  'invalid_header',
  'Transfer-Encoding must be `chunked`, exactly once.',
  'Transfer-Encoding',
);
