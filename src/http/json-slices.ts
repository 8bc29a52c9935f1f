// Serializes a large value as JSON in slices. Serializing a 20 MB string in one call would take about 60 ms, during
// which the event loop could not serve other requests. No side effects.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { literalOf, memberNames, stringifyExact } from '../shared/exact-json.js';
import { JsonText } from './json-text.js';

/** Characters per chunk of a string; a chunk takes a few tenths of a millisecond. */
const PIECE_CHARACTERS = 131_072;
/** Strings up to this length are written without yielding. */
const SHORT_CHARACTERS = 4_096;
/** Milliseconds of work in stringifyInSlices() before other work gets the event loop. */
const SLICE_MS = 5;
/** Number of array or object entries written between two yields. */
const FEW = 64;
/**
 * Number of nesting levels that are traversed entry by entry (list, items, parts, part contents). Deeper levels are
 * serialized in one call.
 */
const LEVELS = 6;

/**
 * Appends `value` (plain data) to `text` as stringifyExact() would write it, and yields after each slice. Never splits
 * a surrogate pair.
 */
export function* jsonSlices(value: unknown, text: JsonText, level = 0): Generator<void, void> {
  if (typeof value === 'string' && value.length > SHORT_CHARACTERS) {
    text.add('"');
    for (let at = 0, end = 0; at < value.length; at = end) {
      end = at + PIECE_CHARACTERS;
      if (isHighSurrogate(value.charCodeAt(end - 1))) end++;
      text.add(JSON.stringify(value.slice(at, end)).slice(1, -1));
      yield;
    }
    text.add('"');
  } else if (typeof value !== 'object' || value === null || level === LEVELS) {
    text.add(stringifyExact(value) ?? 'null');
  } else if (Array.isArray(value)) {
    text.add('[');
    for (let at = 0; at < value.length; at++) {
      if (at > 0) text.add(',');
      const literal = literalOf(value, String(at));
      if (literal !== undefined) text.add(literal);
      else yield* jsonSlices(value[at], text, level + 1);
      if (at % FEW === FEW - 1) yield;
    }
    text.add(']');
  } else {
    text.add('{');
    let count = 0;
    for (const key of memberNames(value)) {
      const inner = (value as Readonly<Record<string, unknown>>)[key];
      if (inner === undefined) continue;
      text.add(`${count === 0 ? '' : ','}${JSON.stringify(key)}:${literalOf(value, key) ?? ''}`);
      if (literalOf(value, key) === undefined) yield* jsonSlices(inner, text, level + 1);
      if (++count % FEW === 0) yield;
    }
    text.add('}');
  }
}

/** Like stringifyExact(), but yields the event loop to other work between slices. */
export async function stringifyInSlices(value: unknown): Promise<string> {
  const text = new JsonText();
  let began = performance.now();
  for (const _ of jsonSlices(value, text)) {
    if (performance.now() - began < SLICE_MS) continue;
    await nextTurn();
    began = performance.now();
  }
  return text.toString();
}

const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00;
