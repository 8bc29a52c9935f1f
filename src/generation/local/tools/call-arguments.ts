// Past calls' arguments on their way into the prompt. They are text that should have been a JSON object, and
// go back as the model wrote them wherever the template lets them: numbers keep all their digits.
import { randomInt } from 'node:crypto';
import type { Shield } from '../shield.js';
import type { TemplateCapabilities } from '../template-probe.js';
import { valueSpans } from './value-spans.js';

/** Arguments nested deeper are passed on as text; it also bounds the recursions below. */
const MAX_DEPTH = 256;

/** Of a million whole numbers that stand for others; a text that has one by chance is a text that has fifteen digits in common with it. */
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

  readonly #digits: string[] = []; // what whole numbers stand for: others that are none of JavaScript's

  constructor(
    private readonly shield: Shield,
    private readonly can: Pick<TemplateCapabilities, 'callArguments' | 'numbersAsText' | 'writesNull'>,
  ) {
    this.#mark = String.fromCodePoint(shield.guard).repeat(2);
  }

  /** The value that comes out whole. Arguments that are no JSON object never make the template fail. */
  forTemplate(text: string): unknown {
    const given = text.trim() === '' ? '{}' : text;
    const { callArguments: kind, numbersAsText, writesNull } = this.can;
    if (kind === 'text') return this.shield.protect(given);
    const parsed = parseObject(kind === 'object' ? this.#withStandIns(given, !writesNull) : given);
    if (kind === 'object' && parsed === null) return { arguments: this.shield.protect(given) };
    if (kind === 'object')
      return protectDeep(numbersAsText ? withDigits(parsed as Record<string, unknown>, given) : parsed, this.shield);
    if (parsed === null) return this.shield.protect(given);
    // The template would make a JSON string of it: a stand-in that no client text contains, replaced by restore().
    return `${this.#mark}${this.#texts.push(this.shield.protect(given)) - 1}${this.#mark}`;
  }

  /** For a call that is written without the template's help. */
  asText(text: string): string {
    return this.shield.protect(text.trim() === '' ? '{}' : text);
  }

  /** Puts the arguments in their stand-ins' places. */
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

  /** A JSON text with numbers that come out of a template as they are in the place of those that would lose digits, and of null where it would be lost. */
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

/** Null if the text is no JSON object, or one nested without end. */
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

/** Whether a JSON text is nested too deep, seen before a parser spends its time on it. */
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

/** Numbers as the text they were: templates that walk through arguments write each value out, and text keeps its digits. */
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
