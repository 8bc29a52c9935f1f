// Splits a past call's arguments into members, for syntaxes that write them one by one. Pure.
import { parseObject } from './call-arguments.js';
import { valueSpans } from './value-spans.js';

/**
 * Strings are returned unquoted and other values as their original JSON text. Anything but an object becomes one
 * member.
 */
export function membersOf(text: string): Map<string, { text: string; isString: boolean }> {
  const parsed = parseObject(text);
  if (parsed === null) return new Map([['arguments', { text, isString: true }]]);
  const spans = valueSpans(text);
  return new Map(
    Object.entries(parsed).map(([name, value]) => [
      name,
      typeof value === 'string'
        ? { text: value, isString: true }
        : { text: spans.get(name) ?? JSON.stringify(value), isString: false },
    ]),
  );
}
