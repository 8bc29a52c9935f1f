// Request bytes → JSON value by the contract's rules: strict UTF-8, one byte-order mark skipped, nesting
// of at most 512, a bounded number of values, finite numbers, an object at the top. Pure.

import { apiError } from '../errors.js';
import { jsonExcess } from './json-extent.js';
import type { JsonExcess, JsonLimits } from './json-extent.js';

export const MAX_JSON_DEPTH = 512;
/** Members of all objects together. What JSON.parse takes for more of them, with names that all differ, everybody waits for. */
export const MAX_JSON_MEMBERS = 500_000;
/** Objects and arrays, and what is separated by commas in them. Each takes fifty bytes where `{},` took three. */
export const MAX_JSON_VALUES = 1_000_000;

const LIMITS: JsonLimits = { depth: MAX_JSON_DEPTH, values: MAX_JSON_VALUES, members: MAX_JSON_MEMBERS };
const TOO_MUCH: Readonly<Record<JsonExcess, string>> = {
  depth: `is nested deeper than ${MAX_JSON_DEPTH} levels`,
  values: `has more than ${MAX_JSON_VALUES} values in its arrays and objects`,
  members: `has more than ${MAX_JSON_MEMBERS} members in its objects`,
  number: 'contains a number that is not finite',
};

const decoder = new TextDecoder('utf-8', { fatal: true });   // skips one leading byte-order mark

/** `what` is how errors call it. Throws ApiError `invalid_json` or `invalid_body`. */
export function parseJsonBody(bytes: Uint8Array, what = 'request body'): object {
  const empty = (): Error => apiError('invalid_body', `The ${what} is empty; a JSON object is required.`);
  if (bytes.length === 0) throw empty();
  const excess = jsonExcess(bytes, LIMITS);
  if (excess !== null) throw apiError('invalid_json', `The ${what} ${TOO_MUCH[excess]}.`);
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    throw apiError('invalid_json', `The ${what} is not valid UTF-8.`);
  }
  if (text.trim() === '') throw empty();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw apiError('invalid_json', `The ${what} is not valid JSON${position(error)}.`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw apiError('invalid_body', `The ${what} must be a JSON object, not ${Array.isArray(value) ? 'an array' : value === null ? 'null' : `a ${typeof value}`}.`);
  }
  return value;
}

// The engine's own message quotes the text around the fault, which may be prompt text: only the place is kept.
function position(error: unknown): string {
  const at = /at position (\d+)/.exec((error as Error).message)?.[1];
  return at === undefined ? '' : ` (at character ${at})`;
}
