// Measures the complexity of a JSON text before it is parsed: nesting depth, number of values and members, and numbers
// that overflow. JSON.parse expands `{},{},…` to fifty times its size and blocks the event loop for seconds; counting
// takes a single pass over the bytes. No side effects.

/** Limits for a JSON text. */
export interface JsonLimits {
  depth: number;
  values: number;
  members: number;
}

/** The limit that was exceeded. `number`: the text contains a non-finite number. */
export type JsonExcess = keyof JsonLimits | 'number';

// The meaning of each byte outside strings. All other bytes, including UTF-8 bytes above 127, are ignored.
const OPENS = 1,
  CLOSES = 2,
  SEPARATES = 3,
  NAMES = 4,
  QUOTES = 5,
  RAISES = 6;
const MEANINGS = new Uint8Array(256);
for (const [meaning, characters] of [
  [OPENS, '{['],
  [CLOSES, '}]'],
  [SEPARATES, ','],
  [NAMES, ':'],
  [QUOTES, '"'],
  [RAISES, 'eE'],
] as const) {
  for (const character of characters) MEANINGS[character.charCodeAt(0)] = meaning;
}

const QUOTE = 0x22,
  BACKSLASH = 0x5c,
  MINUS = 0x2d;
/**
 * Number of bytes of a string to scan individually before switching to a native search. One native call costs as much
 * as scanning about fifty bytes.
 */
const NEAR = 64;
/** A number with fewer digits is finite unless it has a positive exponent. */
const LONG_NUMBER = 300;

/**
 * Returns the first limit that the text exceeds, or null. Opening brackets and commas are counted as values, which
 * covers every value except the first. For invalid JSON, the result is meaningless, but JSON.parse fails before it has
 * created more values than were counted.
 */
export function jsonExcess(text: Uint8Array, limits: JsonLimits): JsonExcess | null {
  // A Buffer uses the C library for searching; a plain Uint8Array does not.
  const bytes = Buffer.from(text.buffer, text.byteOffset, text.byteLength);
  const maxStrings = limits.values + limits.members + 1;
  let depth = 0,
    values = 0,
    members = 0,
    strings = 0;
  let before = -1; // last bracket, comma, colon or quote
  let raised = false; // the number being scanned has a positive exponent
  for (let at = 0; at < bytes.length; at++) {
    const meaning = MEANINGS[bytes[at] as number];
    if (meaning === 0) continue;
    if (meaning === RAISES) {
      raised ||= isDigit(bytes[at - 1]) && bytes[at + 1] !== MINUS; // `true` has no digit before its e
      continue;
    }
    if ((raised || at - before > LONG_NUMBER) && isInfinite(bytes, before + 1, at)) return 'number';
    raised = false;
    before = at;
    switch (meaning) {
      case OPENS:
        if (++depth > limits.depth) return 'depth';
        if (++values > limits.values) return 'values';
        break;
      case CLOSES:
        depth--;
        break;
      case SEPARATES:
        if (++values > limits.values) return 'values';
        break;
      case NAMES:
        if (++members > limits.members) return 'members';
        break;
      case QUOTES:
        before = at = endOfString(bytes, at + 1);
        // The string is not terminated, or two strings lack a separator. JSON.parse reports the error.
        if (at < 0 || ++strings > maxStrings) return null;
        break;
    }
  }
  return null;
}

/**
 * Returns the position of the string's closing quote, or -1 if there is none. `at`: position of the string's first
 * byte.
 */
function endOfString(bytes: Buffer, at: number): number {
  for (;;) {
    const near = Math.min(at + NEAR, bytes.length);
    for (; at < near; at++) {
      const byte = bytes[at];
      if (byte === QUOTE) return at;
      if (byte === BACKSLASH) at++;
    }
    const quote = bytes.indexOf(QUOTE, at);
    if (quote < 0 || !isEscaped(bytes, quote)) return quote;
    at = quote + 1;
  }
}

/** Whether the byte at `at` is escaped: an odd number of backslashes precedes it. */
function isEscaped(bytes: Buffer, at: number): boolean {
  let before = at;
  while (bytes[before - 1] === BACKSLASH) before--;
  return (at - before) % 2 === 1;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

/**
 * Whether the text between two structural bytes is a number that would be parsed to infinity. Malformed numbers are
 * ignored, because JSON.parse reports them.
 */
function isInfinite(bytes: Buffer, from: number, to: number): boolean {
  return Math.abs(Number(bytes.toString('latin1', from, to))) === Infinity;
}
