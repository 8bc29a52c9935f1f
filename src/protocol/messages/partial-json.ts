// What a beginning of a JSON object says for certain: arguments that were cut by the output cap. Pure.
import { parseExact } from '../../shared/exact-json.js';

/** A string, number or literal, complete in itself; what follows decides whether a number has ended. */
const SCALAR = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*(?=[\s,\]}])|true|false|null/y;

/**
 * The members and items that are complete, in objects and lists as far as they were opened; a member cut in
 * its key or value is left out, as the streaming clients do it. {} if `text` is no beginning of an object.
 */
export function completePart(text: string): Record<string, unknown> {
  const open: ('}' | ']')[] = [];
  let end = 0; // of the last complete value
  let closers = ''; // of what is open there
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
