// Complete HTTP responses for requests that the parser rejects, before there is an Exchange. Pure.

import { apiError, chatErrorBody } from '../shared/errors.js';
import type { ErrorCode } from '../shared/error-codes.js';

export function errorPage(code: ErrorCode, message: string): string {
  const body = JSON.stringify(chatErrorBody(apiError(code, message)));
  return `HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\nConnection: close\r\n\r\n${body}`;
}

export const HEADERS_TOO_LARGE_PAGE = errorPage('headers_too_large', 'The headers are too large.');
