// Serializes a large value as JSON in slices. Serializing a 20 MB string in one call would take about 60 ms, during
// which the event loop could not serve other requests. No side effects.
import type { JsonText } from './json-text.js';

/** Characters per chunk of a string; a chunk takes a few tenths of a millisecond. */
const PIECE_CHARACTERS = 131_072;
/** Strings up to this length are written without yielding. */
const SHORT_CHARACTERS = 4_096;
/** Number of array or object entries written between two yields. */
const FEW = 64;
/**
 * Number of nesting levels that are traversed entry by entry (list, items, parts, part contents). Deeper levels are
 * serialized in one call.
 */
const LEVELS = 6;

/**
 * Appends `value` (plain data) to `text` as JSON.stringify() would write it, and yields after each slice. Never splits
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
    text.add(JSON.stringify(value) ?? 'null');
  } else if (Array.isArray(value)) {
    text.add('[');
    for (let at = 0; at < value.length; at++) {
      if (at > 0) text.add(',');
      yield* jsonSlices(value[at], text, level + 1);
      if (at % FEW === FEW - 1) yield;
    }
    text.add(']');
  } else {
    text.add('{');
    let count = 0;
    for (const [key, inner] of Object.entries(value)) {
      if (inner === undefined) continue;
      text.add(`${count === 0 ? '' : ','}${JSON.stringify(key)}:`);
      yield* jsonSlices(inner, text, level + 1);
      if (++count % FEW === 0) yield;
    }
    text.add('}');
  }
}

const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00;
