// White space as Python defines it. It differs from JavaScript's: the separators U+001C to U+001F and U+0085 count, the
// byte order mark does not.

/** The white-space characters, for use in a character class of a regular expression. */
export const SPACE = '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';

const IS_SPACE = new RegExp(`^[${SPACE}]$`);

export function isSpace(text: string, index: number): boolean {
  const code = text.charCodeAt(index);
  if (code < 0x80) return code === 0x20 || (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x1f);
  return IS_SPACE.test(text[index] as string);
}

// Implemented with loops, because a regular expression takes quadratic time at the end of a text.
export function trimEnd(text: string): string {
  let end = text.length;
  while (end > 0 && isSpace(text, end - 1)) end--;
  return text.slice(0, end);
}

export function trimStart(text: string): string {
  let start = 0;
  while (start < text.length && isSpace(text, start)) start++;
  return text.slice(start);
}

/** Splits at white space, at most `times` times; negative = no limit. */
export function words(text: string, times: number): string[] {
  const found: string[] = [];
  let at = 0;
  for (;;) {
    while (at < text.length && isSpace(text, at)) at++;
    if (at === text.length) return found;
    if (found.length === times) return [...found, text.slice(at)];
    const start = at;
    while (at < text.length && !isSpace(text, at)) at++;
    found.push(text.slice(start, at));
  }
}

/** Like words(), from the end. */
export function lastWords(text: string, times: number): string[] {
  const found: string[] = [];
  let at = text.length;
  for (;;) {
    while (at > 0 && isSpace(text, at - 1)) at--;
    if (at === 0) return found.reverse();
    if (found.length === times) return [text.slice(0, at), ...found.reverse()];
    const end = at;
    while (at > 0 && !isSpace(text, at - 1)) at--;
    found.push(text.slice(at, end));
  }
}

const LINE_BREAK = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/g;

/** Splits into lines like str.splitlines(). */
export function lines(text: string, keepEnds = false): string[] {
  const found: string[] = [];
  let start = 0;
  for (const { 0: end, index } of text.matchAll(LINE_BREAK)) {
    found.push(text.slice(start, keepEnds ? index + end.length : index));
    start = index + end.length;
  }
  if (start < text.length) found.push(text.slice(start));
  return found;
}
