// How much there is in a JSON text, counted in its bytes before anything is parsed: nesting, values and
// members outside of strings, and numbers too large to be one. What JSON.parse makes of `{},{},…` takes
// fifty times the bytes and seconds of everybody's time; counting takes one pass. Pure.

/** What a text may hold. */
export interface JsonLimits {
  depth: number;
  values: number;
  members: number;
}

/** What there is too much of: the limit's name, or `number` for one that is not finite. */
export type JsonExcess = keyof JsonLimits | 'number';

// What a byte means outside of strings. Any other byte, UTF-8's above 127 included, means nothing.
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
/** Bytes of a string looked at one by one before it is worth a native search, whose call costs as much as some fifty. */
const NEAR = 64;
/** Without an exponent, or with a negative one, a number of fewer digits is finite. */
const LONG_NUMBER = 300;

/**
 * The first limit that the text exceeds, or null. Values are counted by what begins or follows one, an opening
 * bracket or a comma: at least one for each but the first. Text that is not JSON gets some answer: JSON.parse fails
 * on it before it has made more than was counted.
 */
export function jsonExcess(text: Uint8Array, limits: JsonLimits): JsonExcess | null {
  // A Buffer searches with the C library; a plain Uint8Array does not.
  const bytes = Buffer.from(text.buffer, text.byteOffset, text.byteLength);
  const maxStrings = limits.values + limits.members + 1;
  let depth = 0,
    values = 0,
    members = 0,
    strings = 0;
  let before = -1; // the last bracket, comma, colon or quote
  let raised = false; // there is an exponent after it
  for (let at = 0; at < bytes.length; at++) {
    const meaning = MEANINGS[bytes[at] as number];
    if (meaning === 0) continue;
    if (meaning === RAISES) {
      raised ||= isDigit(bytes[at - 1]) && bytes[at + 1] !== MINUS; // the e of `true` follows no digit
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
        // No end, or two with nothing between them: JSON.parse says so.
        if (at < 0 || ++strings > maxStrings) return null;
        break;
    }
  }
  return null;
}

/** Where the string's closing quote is; -1 if nowhere. `at`: its first byte. */
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

/** Whether an odd number of backslashes stands before `at`. */
function isEscaped(bytes: Buffer, at: number): boolean {
  let before = at;
  while (bytes[before - 1] === BACKSLASH) before--;
  return (at - before) % 2 === 1;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

/** Whether the text between two of those bytes is a number that is none once read. What is no number is JSON.parse's. */
function isInfinite(bytes: Buffer, from: number, to: number): boolean {
  return Math.abs(Number(bytes.toString('latin1', from, to))) === Infinity;
}
