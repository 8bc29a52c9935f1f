// Extracts and checks a request's API key. `Authorization` and `x-api-key` are both accepted on every path, because
// clients differ in which one they send. If both are present, one valid key is enough.

import { apiError } from '../shared/errors.js';
import type { Identity } from '../shared/identity.js';

/** The client that sent a request. The client's address is computed on first access. */
export interface Sender {
  readonly remoteAddress: string;
}

/** Looks up a key, synchronously or asynchronously. Throws or rejects with ApiError 401, 403, 429 or 503. */
export type Authenticate<T = Identity> = (key: string, from: Sender) => T | Promise<T>;

/** `header` returns '' for an absent header. Throws or rejects with ApiError. */
export function identify<T = Identity>(
  header: (name: string) => string,
  from: Sender,
  authenticate: Authenticate<T>,
): T | Promise<T> {
  const bearer = /^bearer\s+(\S+)\s*$/i.exec(header('authorization'))?.[1] ?? '';
  const apiKey = header('x-api-key').trim();
  if (bearer === '' && apiKey === '') {
    throw apiError(
      'missing_api_key',
      'No API key was sent. Send it as "Authorization: Bearer <key>" or as "x-api-key: <key>".',
    );
  }
  if (bearer === '') return authenticate(apiKey, from);
  if (apiKey === '' || apiKey === bearer) return authenticate(bearer, from);
  return eitherOf(bearer, apiKey, from, authenticate);
}

async function eitherOf<T>(bearer: string, apiKey: string, from: Sender, authenticate: Authenticate<T>): Promise<T> {
  try {
    return await authenticate(bearer, from);
  } catch (first) {
    try {
      return await authenticate(apiKey, from);
    } catch {
      throw first;
    }
  }
}

/** Whether a request has neither API key header. A header with an unusable value counts as present. */
export const hasNoKey = (header: (name: string) => string): boolean =>
  header('authorization').trim() === '' && header('x-api-key').trim() === '';
