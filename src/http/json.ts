// Request bytes → JSON value, by the rules of the API: strict UTF-8, one byte-order mark skipped, at most 512 nesting
// levels, a bounded number of values, finite numbers, an object at the top. No side effects.

import { apiError } from '../shared/errors.js';
import { recordNotation } from '../shared/exact-json.js';
import { jsonExcess } from './json-complexity.js';
import type { JsonExcess, JsonLimits } from './json-complexity.js';

export const MAX_JSON_DEPTH = 512;
/**
 * Maximum total number of members in all objects. JSON.parse blocks the event loop, and parsing more members with
 * distinct names would take too long.
 */
export const MAX_JSON_MEMBERS = 500_000;
/**
 * Maximum number of objects, arrays and comma-separated values. Each takes about fifty bytes in memory, even if its
 * text, such as `{},`, has only three bytes.
 */
export const MAX_JSON_VALUES = 1_000_000;

const LIMITS: JsonLimits = { depth: MAX_JSON_DEPTH, values: MAX_JSON_VALUES, members: MAX_JSON_MEMBERS };
const TOO_MUCH: Readonly<Record<JsonExcess, string>> = {
  depth: `is nested deeper than ${MAX_JSON_DEPTH} levels`,
  values: `has more than ${MAX_JSON_VALUES} values in its arrays and objects`,
  members: `has more than ${MAX_JSON_MEMBERS} members in its objects`,
  number: 'contains a number that is not finite',
};

const decoder = new TextDecoder('utf-8', { fatal: true }); // skips one leading byte-order mark

const BODY = 'request body';

/** `what`: the text's name in error messages. Throws ApiError `invalid_json` or `invalid_body`. */
export function parseJsonBody(bytes: Uint8Array, what = BODY): object {
  checkJsonComplexity(bytes, what);
  return jsonObject(jsonText(bytes, what), what);
}

// The three steps of parseJsonBody(), for callers that run other requests between the steps. Each step takes about 20
// ms for a 3 MB body.

export function checkJsonComplexity(bytes: Uint8Array, what = BODY): void {
  if (bytes.length === 0) throw empty(what);
  const excess = jsonExcess(bytes, LIMITS);
  if (excess !== null) throw apiError('invalid_json', `The ${what} ${TOO_MUCH[excess]}.`);
}

export function jsonText(bytes: Uint8Array, what = BODY): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw apiError('invalid_json', `The ${what} is not valid UTF-8.`);
  }
}

/** `text` must come from bytes that passed checkJsonComplexity(). */
export function jsonObject(text: string, what = BODY): object {
  if (text.trim() === '') throw empty(what);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw apiError('invalid_json', `The ${what} is not valid JSON${position(error)}.`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw apiError(
      'invalid_body',
      `The ${what} must be a JSON object, not ${Array.isArray(value) ? 'an array' : value === null ? 'null' : `a ${typeof value}`}.`,
    );
  }
  recordNotation(text, value);
  return value;
}

const empty = (what: string): Error => apiError('invalid_body', `The ${what} is empty; a JSON object is required.`);

// The JavaScript engine's error message quotes the text around the error, which may be prompt text. Therefore, only the
// position is reported.
function position(error: unknown): string {
  const at = /at position (\d+)/.exec((error as Error).message)?.[1];
  return at === undefined ? '' : ` (at character ${at})`;
}
