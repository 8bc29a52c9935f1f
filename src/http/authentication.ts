// Finds the API key of a request. Either header is accepted on every path, because the clients differ in
// which one they send; with both, one valid key is enough.

import { apiError } from '../errors.js';
import type { Identity } from '../identity/identity.js';

/** Looks a key up: at once, or with a promise. Throws or rejects with ApiError 401 or 403. */
export type Authenticate<T = Identity> = (key: string) => T | Promise<T>;

/** `header` returns '' for an absent header. Throws or rejects with ApiError. */
export function identify<T = Identity>(header: (name: string) => string, authenticate: Authenticate<T>): T | Promise<T> {
  const bearer = /^bearer\s+(\S+)\s*$/i.exec(header('authorization'))?.[1] ?? '';
  const apiKey = header('x-api-key').trim();
  if (bearer === '' && apiKey === '') {
    throw apiError('missing_api_key', 'No API key was sent. Send it as "Authorization: Bearer <key>" or as "x-api-key: <key>".');
  }
  if (bearer === '') return authenticate(apiKey);
  if (apiKey === '' || apiKey === bearer) return authenticate(bearer);
  return eitherOf(bearer, apiKey, authenticate);
}

async function eitherOf<T>(bearer: string, apiKey: string, authenticate: Authenticate<T>): Promise<T> {
  try {
    return await authenticate(bearer);
  } catch (first) {
    try {
      return await authenticate(apiKey);
    } catch {
      throw first;
    }
  }
}
