// Request bytes → JSON value by the contract's rules: strict UTF-8, one byte-order mark skipped, nesting
// of at most 512, finite numbers, an object at the top. Pure.

import { apiError } from '../errors.js';

export const MAX_JSON_DEPTH = 512;
/** Members of all objects together. What JSON.parse takes for more of them, with names that all differ, everybody waits for. */
export const MAX_JSON_MEMBERS = 500_000;

const decoder = new TextDecoder('utf-8', { fatal: true });   // skips one leading byte-order mark

/** `what` is how errors call it. Throws ApiError `invalid_json` or `invalid_body`. */
export function parseJsonBody(bytes: Uint8Array, what = 'request body'): object {
  const empty = (): Error => apiError('invalid_body', `The ${what} is empty; a JSON object is required.`);
  if (bytes.length === 0) throw empty();
  if (hasTooManyMembers(bytes)) throw apiError('invalid_json', `The request body has more than ${MAX_JSON_MEMBERS} members in its objects.`);
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
  checkTree(value, what);
  return value;
}

const QUOTE = 0x22, COLON = 0x3a, BACKSLASH = 0x5c;

/** Colons outside of strings, before anything is parsed. Strings are skipped in one go: an image costs nothing here. */
function hasTooManyMembers(bytes: Uint8Array): boolean {
  if (bytes.length < 4 * MAX_JSON_MEMBERS) return false;   // `"":0` is the shortest member
  let members = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === COLON && ++members > MAX_JSON_MEMBERS) return true;
    if (byte !== QUOTE) continue;
    do {
      at = bytes.indexOf(QUOTE, at + 1);
      if (at < 0) return false;   // no end: JSON.parse says so
    } while (isEscaped(bytes, at));
  }
  return false;
}

/** Whether an odd number of backslashes stands before `at`. */
function isEscaped(bytes: Uint8Array, at: number): boolean {
  let before = at;
  while (bytes[before - 1] === BACKSLASH) before--;
  return (at - before) % 2 === 1;
}

// The engine's own message quotes the text around the fault, which may be prompt text: only the place is kept.
function position(error: unknown): string {
  const at = /at position (\d+)/.exec((error as Error).message)?.[1];
  return at === undefined ? '' : ` (at character ${at})`;
}

/** Walks values rather than bytes: an image of 20 MB is one string here. Iterative, so depth cannot overflow the stack. */
function checkTree(root: object, what: string): void {
  let level: object[] = [root];
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > MAX_JSON_DEPTH) throw apiError('invalid_json', `The ${what} is nested deeper than ${MAX_JSON_DEPTH} levels.`);
    const next: object[] = [];
    for (const node of level) {
      // Arrays are walked by index: for … in would turn every index into a string.
      if (Array.isArray(node)) {
        for (const value of node as unknown[]) visit(value, next, what);
      } else {
        for (const key in node) visit((node as Record<string, unknown>)[key], next, what);
      }
    }
    level = next;
  }
}

function visit(value: unknown, next: object[], what: string): void {
  if (typeof value === 'object' && value !== null) next.push(value);
  else if (typeof value === 'number' && !Number.isFinite(value)) throw apiError('invalid_json', `The ${what} contains a number that is not finite.`);
}
