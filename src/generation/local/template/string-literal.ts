// Decodes the escape sequences of Python's string literals. No side effects.
import { TemplateFault } from './values.js';

const ESCAPE =
  /\\(?:\n|([\\'"abfnrtv])|([0-7]{1,3})|x([\da-fA-F]{0,2})|u([\da-fA-F]{0,4})|U([\da-fA-F]{0,8})|N\{([^}]*)\})/g;

const SIMPLE: Readonly<Record<string, string>> = {
  '\\': '\\',
  "'": "'",
  '"': '"',
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};

/**
 * Characters that templates specify by name. Python knows all Unicode names, but the JavaScript runtime has no such
 * table.
 */
const NAMED: Readonly<Record<string, string>> = {
  BULLET: '\u2022',
  'CHECK MARK': '\u2713',
  'EM DASH': '\u2014',
  'EN DASH': '\u2013',
  'FULLWIDTH VERTICAL LINE': '\uff5c',
  'HORIZONTAL ELLIPSIS': '\u2026',
  'LEFT DOUBLE QUOTATION MARK': '\u201c',
  'LEFT SINGLE QUOTATION MARK': '\u2018',
  'LOWER ONE EIGHTH BLOCK': '\u2581',
  'NO-BREAK SPACE': '\u00a0',
  'RIGHT DOUBLE QUOTATION MARK': '\u201d',
  'RIGHT SINGLE QUOTATION MARK': '\u2019',
  'RIGHTWARDS ARROW': '\u2192',
  'ZERO WIDTH SPACE': '\u200b',
};

/** `text`: the literal without its quotes. Unknown escape sequences are kept unchanged. Throws TemplateFault. */
export function unescape(text: string): string {
  if (!text.includes('\\')) return text;
  return text.replace(ESCAPE, (...match: (string | undefined)[]) => unescaped(match));
}

function unescaped([whole = '', simple, octal, byte, short, long, name]: readonly (string | undefined)[]): string {
  if (simple !== undefined) return SIMPLE[simple] as string;
  if (octal !== undefined) return String.fromCharCode(parseInt(octal, 8));
  if (name !== undefined) return named(name);
  const hex = byte ?? short ?? long;
  if (hex === undefined) return ''; // a line break
  const digits = byte !== undefined ? 2 : short !== undefined ? 4 : 8;
  const code = parseInt(hex, 16);
  if (hex.length < digits || code > 0x10ffff) throw new TemplateFault(`the escape ${whole} is incomplete or too large`);
  return String.fromCodePoint(code);
}

function named(name: string): string {
  const character = Object.hasOwn(NAMED, name.toUpperCase()) ? NAMED[name.toUpperCase()] : undefined;
  if (character === undefined)
    throw new TemplateFault(`the character name ${JSON.stringify(name)} is not known: write it as \\u and four digits`);
  return character;
}
