// JSON of a large value, made in slices: a string of twenty megabytes takes some sixty milliseconds to become JSON in one go, for which
// everybody else would wait. Pure.
import type { JsonText } from './json-text.js';

/** Characters of one piece of a string: some tenths of a millisecond. */
const PIECE_CHARACTERS = 131_072;
/** A string of fewer is written without a pause behind it. */
const SHORT_CHARACTERS = 4_096;
/** Entries of a list or an object that are written without one. */
const FEW = 64;
/** Levels that are gone through one by one: a list, its items, their parts, and what is in these. Deeper ones are written at once. */
const LEVELS = 6;

/** Adds `value`, plain data, to `text` as JSON.stringify() writes it; after each slice it yields. Surrogates stay together. */
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
