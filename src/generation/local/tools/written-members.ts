// A past call's arguments, member by member, for syntaxes that write them so. Pure.
import { parseObject } from './call-arguments.js';
import { valueSpans } from './value-spans.js';

/** Strings as they are, other values as their JSON was written, digits and all; what is no object as one member. */
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
