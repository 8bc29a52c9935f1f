// Past calls' arguments on their way into the prompt. They are text that should have been a JSON object, and
// go back as the model wrote them wherever the template lets them: numbers keep all their digits.
import type { Shield } from '../shield.js';
import type { TemplateCapabilities } from '../template-probe.js';
import { At, JsonScanner } from './json-scanner.js';

/** Arguments nested deeper are passed on as text; it also bounds the recursions below. */
const MAX_DEPTH = 256;

const QUOTE = 0x22, BACKSLASH = 0x5c, OPEN_BRACE = 0x7b, CLOSE_BRACE = 0x7d, OPEN_BRACKET = 0x5b, CLOSE_BRACKET = 0x5d;

export class CallArguments {
  readonly #texts: string[] = [];
  readonly #mark: string;

  constructor(private readonly shield: Shield, private readonly kind: TemplateCapabilities['callArguments']) {
    this.#mark = String.fromCodePoint(shield.guard).repeat(2);
  }

  /** The value that comes out whole; what is no JSON object never makes the template fail. */
  forTemplate(text: string): unknown {
    const given = text.trim() === '' ? '{}' : text;
    if (this.kind === 'text') return this.shield.protect(given);
    const parsed = parseObject(given);
    if (this.kind === 'object') return protectDeep(parsed === null ? { arguments: given } : withDigits(parsed, given), this.shield);
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
    if (this.#texts.length === 0) return rendered;
    const standIn = new RegExp(`"${this.#mark}(\\d+)${this.#mark}"`, 'g');
    return rendered.replace(standIn, (whole, index: string) => this.#texts[Number(index)] ?? whole);
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
  const scanner = new JsonScanner();
  let key = 0;                     // where the last key of the object itself began
  let value = -1;                  // and its value
  for (let index = 0; index < text.length; index++) {
    const { at, depth } = scanner;
    if (!scanner.accept(text.charCodeAt(index))) return result;   // nested too deep, or the end
    if (depth !== 1) continue;
    const now: At = scanner.at;
    if ((at === At.FirstKey || at === At.Key) && now === At.String) key = index;
    if (at === At.Colon && now === At.Value) value = index + 1;
    if (value === -1 || (now !== At.Key && now !== At.Done)) continue;
    const name = JSON.parse(text.slice(key, value - 1)) as string;
    if (typeof result[name] === 'number') result[name] = text.slice(value, index).trim();
    value = -1;
  }
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
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [shield.protect(key), protectDeep(item, shield)]));
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
