// Passes the arguments of past calls to the template: as an object, with numbers as the client wrote them.
import type { Shield } from '../shield.js';
import { parseJson } from '../template/json.js';
import type { TemplateCapabilities } from '../template/probe.js';
import { Dict, TemplateFault, type Value } from '../template/values.js';
import { At, JsonScanner } from './json-scanner.js';

/** Arguments nested deeper than this are passed as text. This also limits the depth of the recursions below. */
const MAX_DEPTH = 256;

const QUOTE = 0x22,
  BACKSLASH = 0x5c,
  OPEN_BRACE = 0x7b,
  CLOSE_BRACE = 0x7d,
  OPEN_BRACKET = 0x5b,
  CLOSE_BRACKET = 0x5d;

/** Converts a past call's arguments. All strings in them come from the client. */
export class CallArguments {
  constructor(
    private readonly shield: Shield,
    private readonly can: Pick<TemplateCapabilities, 'callArguments' | 'textArguments'>,
  ) {}

  /** The template must not fail if the arguments are not a JSON object. */
  forTemplate(text: string): Value {
    const given = text.trim() === '' ? '{}' : text;
    const { callArguments, textArguments } = this.can;
    const object = callArguments === 'object' ? objectIn(given) : null;
    if (object !== null) return protectedValue(object, this.shield);
    const shielded = this.shield.protect(given);
    return callArguments === 'text' || textArguments ? shielded : new Dict().set('arguments', shielded);
  }

  /** Returns the shielded JSON text of the arguments, for calls that are written without the template. */
  asText(text: string): string {
    return this.shield.protect(text.trim() === '' ? '{}' : text);
  }
}

/** Returns null if the text is not a JSON object or is nested too deeply. */
function objectIn(text: string): Dict | null {
  try {
    const value = parseJson(text);
    return value instanceof Dict ? value : null;
  } catch (error) {
    if (error instanceof TemplateFault) return null;
    throw error;
  }
}

function protectedValue(value: Value, shield: Shield): Value {
  if (typeof value === 'string') return shield.protect(value);
  if (Array.isArray(value)) return value.map((item) => protectedValue(item, shield));
  if (!(value instanceof Dict)) return value;
  const copy = new Dict();
  for (const [key, item] of value.entries()) copy.set(shield.protect(key as string), protectedValue(item, shield));
  return copy;
}

/** Returns null if the text is not a JSON object or is nested too deeply. */
export function parseObject(text: string): Record<string, unknown> | null {
  if (opensTooDeep(text)) return null;
  try {
    const value: unknown = JSON.parse(text);
    const usable = typeof value === 'object' && value !== null && !Array.isArray(value) && isShallow(value, MAX_DEPTH);
    return usable ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

/** Whether a JSON text is nested too deeply. Checked first, so that no parser spends time on such a text. */
function opensTooDeep(text: string): boolean {
  if (text.length <= MAX_DEPTH) return false;
  let depth = 0;
  let quoted = false;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (quoted) {
      if (code === BACKSLASH) index++;
      else if (code === QUOTE) quoted = false;
    } else if (code === QUOTE) quoted = true;
    else if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      if (++depth > MAX_DEPTH) return true;
    } else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) depth--;
  }
  return false;
}

export function isShallow(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return depth > 0 && Object.values(value).every((item) => isShallow(item, depth - 1));
}

export function* stringsIn(value: unknown): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (Array.isArray(value)) for (const item of value) yield* stringsIn(item);
  else if (typeof value === 'object' && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      yield key;
      yield* stringsIn(item);
    }
  }
}

/** Returns the JSON text of each of the object's member values; numbers keep all their digits. */
function valueSpans(text: string): Map<string, string> {
  const spans = new Map<string, string>();
  const scanner = new JsonScanner();
  let key = 0; // start of the last own key
  let value = -1; // start of its value
  for (let index = 0; index < text.length; index++) {
    const { at, depth } = scanner;
    if (!scanner.accept(text.charCodeAt(index))) return spans; // nested too deeply, or the end
    if (depth !== 1) continue;
    const now: At = scanner.at;
    if ((at === At.FirstKey || at === At.Key) && now === At.String) key = index;
    if (at === At.Colon && now === At.Value) value = index + 1;
    if (value === -1 || (now !== At.Key && now !== At.Done)) continue;
    spans.set(JSON.parse(text.slice(key, value - 1)) as string, text.slice(value, index).trim());
    value = -1;
  }
  return spans;
}

/**
 * Splits a past call's arguments into members, for syntaxes that write them one by one. Strings are returned unquoted
 * and other values as their original JSON text. Any value other than an object becomes one member.
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
