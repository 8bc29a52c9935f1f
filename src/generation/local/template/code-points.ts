// Functions on the code points of a text. Python counts and indexes code points; JavaScript counts and indexes UTF-16
// units. The two differ only in text that contains surrogates.

const SURROGATE = /[\ud800-\udfff]/;

/** Whether indexes by code point and by UTF-16 unit are the same. */
export function isPlain(text: string): boolean {
  return !SURROGATE.test(text);
}

export function lengthOf(text: string): number {
  if (isPlain(text)) return text.length;
  let length = text.length;
  for (let at = 1; at < text.length; at++) if (isLowSurrogate(text, at) && isHighSurrogate(text, at - 1)) length--;
  return length;
}

/** The first `count` characters. */
export function firstCharacters(text: string, count: number): string {
  return Array.from(text.slice(0, 2 * count))
    .slice(0, count)
    .join('');
}

/** Returns the character at an index, which may be negative, or undefined. */
export function characterAt(text: string, index: number): string | undefined {
  return isPlain(text) ? text.at(index) : Array.from(text).at(index);
}

/** Compares code points. */
export function compareTexts(a: string, b: string): number {
  if (a === b) return 0;
  if (isPlain(a) && isPlain(b)) return a < b ? -1 : 1;
  return compareMixed(a, b);
}

function compareMixed(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  let at = 0;
  while (at < length && a.charCodeAt(at) === b.charCodeAt(at)) at++;
  // Move back to the start of a surrogate pair.
  if (at > 0 && at < length && isLowSurrogate(a, at) && isLowSurrogate(b, at)) at--;
  return (a.codePointAt(at) ?? -1) - (b.codePointAt(at) ?? -1);
}

function isLowSurrogate(text: string, index: number): boolean {
  const code = text.charCodeAt(index);
  return code >= 0xdc00 && code <= 0xdfff;
}

function isHighSurrogate(text: string, index: number): boolean {
  const code = text.charCodeAt(index);
  return code >= 0xd800 && code <= 0xdbff;
}
