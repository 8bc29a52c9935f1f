// Parses the complete part of a truncated JSON object, for tool arguments that were cut off by the output limit. No
// side effects.
import { parseExact } from '../../shared/exact-json.js';

/** A complete string, number or literal. A number is complete only if a delimiter follows it. */
const SCALAR = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*(?=[\s,\]}])|true|false|null/y;

/**
 * Returns the complete members and items of every object and list that was opened. Like the streaming clients, omits a
 * member that was cut off in its key or value. Returns {} if `text` is not the start of an object.
 */
export function completePart(text: string): Record<string, unknown> {
  const open: ('}' | ']')[] = [];
  let end = 0; // end of the last complete value
  let closers = ''; // closing brackets of the objects and lists open at `end`
  let at = 0;
  let isKey = false; // the next string is a key
  const keep = (): void => {
    end = at;
    closers = open.toReversed().join('');
  };
  scan: while (at < text.length) {
    const character = text.charAt(at);
    switch (character) {
      case '{':
      case '[':
        open.push(character === '{' ? '}' : ']');
        at++;
        isKey = character === '{';
        keep();
        continue;
      case '}':
      case ']':
        if (open.pop() !== character) break scan;
        at++;
        keep();
        continue;
      case ',':
        at++;
        isKey = open.at(-1) === '}';
        continue;
      case ':':
        at++;
        isKey = false;
        continue;
      case ' ':
      case '\t':
      case '\n':
      case '\r':
        at++;
        continue;
    }
    SCALAR.lastIndex = at;
    const scalar = SCALAR.exec(text);
    if (scalar === null) break;
    at += scalar[0].length;
    if (!isKey) keep();
  }
  try {
    const value = parseExact(text.slice(0, end) + closers);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : {};
  } catch {
    return {};
  }
}
