// Passes the arguments of past calls to the prompt. They should be the JSON text of an object, and are written as the
// model wrote them wherever the template allows: numbers keep all their digits.
import { randomInt } from 'node:crypto';
import type { Shield } from '../shield.js';
import type { TemplateCapabilities } from '../template-probe.js';
import { At, JsonScanner } from './json-scanner.js';

/** Arguments nested deeper than this are passed as text. This also bounds the recursions below. */
const MAX_DEPTH = 256;

/**
 * Up to a million integers that stand for numbers with more digits. Their common prefix is random, so that a text
 * contains one only if it matches fifteen digits by chance.
 */
const STAND_INS = String(randomInt(1_000_000_000, 8_000_000_000));
const MAX_STAND_INS = 1_000_000;
const NUMBER = /\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

const QUOTE = 0x22,
  BACKSLASH = 0x5c,
  OPEN_BRACE = 0x7b,
  CLOSE_BRACE = 0x7d,
  OPEN_BRACKET = 0x5b,
  CLOSE_BRACKET = 0x5d;

export class CallArguments {
  readonly #texts: string[] = [];
  readonly #mark: string;

  readonly #digits: string[] = []; // numbers that JavaScript cannot represent, indexed by stand-in

  constructor(
    private readonly shield: Shield,
    private readonly can: Pick<TemplateCapabilities, 'callArguments' | 'numbersAsText' | 'writesNull'>,
  ) {
    this.#mark = String.fromCodePoint(shield.guard).repeat(2);
  }

  /**
   * Returns a value that the template renders without loss. Arguments that are not a JSON object never make the
   * template fail.
   */
  forTemplate(text: string): unknown {
    const given = text.trim() === '' ? '{}' : text;
    const { callArguments: kind, numbersAsText, writesNull } = this.can;
    if (kind === 'text') return this.shield.protect(given);
    const parsed = parseObject(kind === 'object' ? this.#withStandIns(given, !writesNull) : given);
    if (kind === 'object' && parsed === null) return { arguments: this.shield.protect(given) };
    if (kind === 'object')
      return protectDeep(numbersAsText ? withDigits(parsed as Record<string, unknown>, given) : parsed, this.shield);
    if (parsed === null) return this.shield.protect(given);
    // The template would convert the text to a JSON string, so it gets a stand-in that no client text contains.
    // restore() replaces it.
    return `${this.#mark}${this.#texts.push(this.shield.protect(given)) - 1}${this.#mark}`;
  }

  /** For a call that is written without the template. */
  asText(text: string): string {
    return this.shield.protect(text.trim() === '' ? '{}' : text);
  }

  /** Replaces the stand-ins with the arguments. */
  restore(rendered: string): string {
    let text = rendered;
    if (this.#digits.length > 0) {
      const standIn = new RegExp(`\\b${STAND_INS}(\\d{6})\\b`, 'g');
      text = text.replace(standIn, (whole, index: string) => this.#digits[Number(index)] ?? whole);
    }
    if (this.#texts.length === 0) return text;
    const standIn = new RegExp(`"${this.#mark}(\\d+)${this.#mark}"`, 'g');
    return text.replace(standIn, (whole, index: string) => this.#texts[Number(index)] ?? whole);
  }

  #standIn(text: string): string {
    return STAND_INS + String(this.#digits.push(text) - 1).padStart(6, '0');
  }

  /**
   * Returns the JSON text with stand-ins for numbers that would lose digits, and for null if the template would drop
   * it.
   */
  #withStandIns(text: string, forNull: boolean): string {
    if (!/\d{16}/.test(text) && !(forNull && text.includes('null'))) return text;
    let out = '';
    let copied = 0;
    let quoted = false;
    for (let index = 0; index < text.length; index++) {
      const code = text.charCodeAt(index);
      if (quoted) {
        if (code === BACKSLASH) index++;
        else if (code === QUOTE) quoted = false;
      } else if (code === QUOTE) quoted = true;
      else if (forNull && text.startsWith('null', index)) {
        if (this.#digits.length >= MAX_STAND_INS) return text;
        out += text.slice(copied, index) + this.#standIn('null');
        copied = index + 4;
      } else if (code >= 0x30 && code <= 0x39) {
        NUMBER.lastIndex = index;
        const [number] = NUMBER.exec(text) ?? [''];
        if (/^\d{16,}$/.test(number) && !Number.isSafeInteger(Number(number)) && this.#digits.length < MAX_STAND_INS) {
          out += text.slice(copied, index) + this.#standIn(number);
          copied = index + number.length;
        }
        index += number.length - 1;
      }
    }
    return out + text.slice(copied);
  }
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

/** Whether a JSON text is nested too deeply, checked before a parser spends time on it. */
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

/**
 * Replaces numbers by their text. Templates that iterate over arguments print each value, and text keeps its digits.
 */
function withDigits(parsed: Record<string, unknown>, text: string): Record<string, unknown> {
  if (!Object.values(parsed).some((value) => typeof value === 'number')) return parsed;
  const result = { ...parsed };
  for (const [name, written] of valueSpans(text)) if (typeof result[name] === 'number') result[name] = written;
  return result;
}

export function isShallow(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return depth > 0 && Object.values(value).every((item) => isShallow(item, depth - 1));
}

export function protectDeep(value: unknown, shield: Shield): unknown {
  if (typeof value === 'string') return shield.protect(value);
  if (Array.isArray(value)) return value.map((item) => protectDeep(item, shield));
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [shield.protect(key), protectDeep(item, shield)]),
    );
  }
  return value;
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

/** Returns the text of the value of each of the object's own members, where numbers keep all their digits. */
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
 * and other values as their original JSON text. Anything but an object becomes one member.
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
