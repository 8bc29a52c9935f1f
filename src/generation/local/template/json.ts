// JSON as Python's json module reads and writes it: integers keep all digits, 1.0 stays a float, and strings are
// written with as few escapes as possible.
import { endOfString } from '../../../shared/exact-json.js';
import { compareTexts } from './code-points.js';
import { piecesSteps, textSteps } from './limits.js';
import { bigText, floatText, str } from './print.js';
import type { Run } from './run.js';
import { Dict, Float, TemplateFault, Tuple, isInteger, textOf, typeName, type Value } from './values.js';

export interface JsonOptions {
  /** The indentation per nesting level; with null, everything is written on one line. */
  readonly indent: string | null;
  readonly itemSeparator: string;
  readonly keySeparator: string;
  readonly ascii: boolean;
  readonly sorted: boolean;
}

export const COMPACT: JsonOptions = {
  indent: null,
  itemSeparator: ', ',
  keySeparator: ': ',
  ascii: false,
  sorted: false,
};

/** Throws TemplateFault if the value contains something that JSON cannot represent. */
export function toJson(run: Run, value: Value, options: JsonOptions = COMPACT): string {
  const known = options === COMPACT && value !== null && typeof value === 'object' ? run.json?.get(value) : undefined;
  if (known === undefined || run.changedInput)
    return written(run, value, options, options.indent === null ? null : '\n');
  if (known !== null) {
    run.spend(known.steps);
    return known.text;
  }
  const before = run.budget.spent;
  const text = written(run, value, options, null);
  run.json?.set(value as object, { text, steps: run.budget.spent - before });
  return text;
}

/** `line`: a line break with the current indentation; with null, everything is written on one line. */
function written(run: Run, value: Value, options: JsonOptions, line: string | null): string {
  run.spend(1);
  if (value === null) return 'null';
  if (typeof value === 'boolean') return value ? 'true' : 'false';
  if (typeof value === 'number') return String(value);
  if (typeof value === 'bigint') return bigText(run, value);
  if (value instanceof Float) return jsonFloat(value.value);
  const text = textOf(value);
  if (text !== null) {
    run.spend(options.ascii ? text.length : textSteps(text.length));
    return jsonString(text, options.ascii, run.guard);
  }
  const inner = line === null ? null : line + (options.indent as string);
  const parts =
    Array.isArray(value) || value instanceof Tuple
      ? listParts(run, value, options, inner)
      : value instanceof Dict
        ? dictParts(run, value, options, inner)
        : null;
  if (parts === null) throw new TemplateFault(`Object of type ${typeName(value)} is not JSON serializable`);
  const [open, close] = value instanceof Dict ? ['{', '}'] : ['[', ']'];
  if (parts.length === 0) return open + close;
  run.spend(piecesSteps(parts.length, options.itemSeparator.length + (inner?.length ?? 0)));
  return open + (inner ?? '') + parts.join(options.itemSeparator + (inner ?? '')) + (line ?? '') + close;
}

function listParts(run: Run, list: readonly Value[] | Tuple, options: JsonOptions, line: string | null): string[] {
  const items = list instanceof Tuple ? list.items : list;
  return run.nested(() => items.map((item) => written(run, item, options, line)));
}

function dictParts(run: Run, dict: Dict, options: JsonOptions, line: string | null): string[] {
  run.spend(dict.size);
  const entries = [...dict.entries()].map(([key, item]): [string, Value] => [keyText(run, key), item]);
  if (options.sorted) {
    run.spend(dict.size * SORT_STEPS);
    entries.sort(([a], [b]) => compareTexts(a, b));
  }
  return run.nested(() =>
    entries.map(
      ([key, item]) =>
        jsonString(key, options.ascii, run.guard) + options.keySeparator + written(run, item, options, line),
    ),
  );
}

const SORT_STEPS = 8;

function keyText(run: Run, key: Value): string {
  const text = textOf(key);
  if (text !== null) {
    run.spendText(text.length);
    return text;
  }
  if (key === null) return 'null';
  if (typeof key === 'boolean') return String(key);
  if (key instanceof Float) return jsonFloat(key.value);
  if (isInteger(key)) return str(run, key);
  throw new TemplateFault(`keys must be str, int, float, bool or None, not ${typeName(key)}`);
}

function jsonFloat(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  return Number.isFinite(value) ? floatText(value) : value < 0 ? '-Infinity' : 'Infinity';
}

const ESCAPED = /["\\\x00-\x1f]/;
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

function jsonString(text: string, ascii: boolean, guard: string): string {
  if (ascii)
    return JSON.stringify(text).replace(/[\x7f-\uffff]/g, (character) =>
      character === '\x7f' || character === guard ? character : unicodeEscape(character),
    );
  if (!ESCAPED.test(text)) return `"${text}"`;
  if (!LONE_SURROGATE.test(text)) return JSON.stringify(text);
  return `"${text.replace(new RegExp(ESCAPED, 'g'), (character) => JSON.stringify(character).slice(1, -1))}"`;
}

function unicodeEscape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** Maximum nesting. Deeper JSON is not parsed. */
const MAX_DEPTH = 256;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const SPACE = /[ \t\n\r]*/y;
const MAX_DIGITS = 4_300;

/** Throws TemplateFault if the text is not JSON. Numbers keep their digits. */
export function parseJson(text: string): Value {
  const reader = new JsonReader(text);
  const value = reader.value(MAX_DEPTH);
  reader.end();
  return value;
}

class JsonReader {
  #at = 0;

  constructor(private readonly text: string) {}

  value(depth: number): Value {
    this.#skipSpace();
    switch (this.text[this.#at]) {
      case '{':
        return this.#object(depth);
      case '[':
        return this.#array(depth);
      case '"':
        return this.#string();
      case 't':
        return this.#word('true', true);
      case 'f':
        return this.#word('false', false);
      case 'n':
        return this.#word('null', null);
      default:
        return this.#number();
    }
  }

  end(): void {
    this.#skipSpace();
    if (this.#at < this.text.length) this.#fail();
  }

  #object(depth: number): Dict {
    const dict = new Dict();
    this.#list('}', depth, () => {
      if (this.text[this.#at] !== '"') this.#fail();
      const key = this.#string();
      this.#skipSpace();
      if (this.text[this.#at] !== ':') this.#fail();
      this.#at++;
      dict.set(key, this.value(depth - 1));
    });
    return dict;
  }

  #array(depth: number): Value[] {
    const items: Value[] = [];
    this.#list(']', depth, () => items.push(this.value(depth - 1)));
    return items;
  }

  #list(close: string, depth: number, read: () => void): void {
    if (depth === 0) throw new TemplateFault(`the JSON is nested more than ${MAX_DEPTH} levels deep`);
    this.#at++;
    this.#skipSpace();
    if (this.text[this.#at] === close) {
      this.#at++;
      return;
    }
    for (;;) {
      this.#skipSpace();
      read();
      this.#skipSpace();
      const character = this.text[this.#at++];
      if (character === close) return;
      if (character !== ',') this.#fail();
    }
  }

  #string(): string {
    const start = this.#at;
    const end = endOfString(this.text, start + 1);
    if (end >= this.text.length) this.#fail();
    this.#at = end + 1;
    const inside = this.text.slice(start + 1, end);
    if (!/[\\\x00-\x1f]/.test(inside)) return inside;
    try {
      return JSON.parse(this.text.slice(start, end + 1)) as string;
    } catch {
      this.#at = start;
      return this.#fail();
    }
  }

  #word<T>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.#at)) this.#fail();
    this.#at += word.length;
    return value;
  }

  #number(): Value {
    NUMBER.lastIndex = this.#at;
    const match = NUMBER.exec(this.text);
    if (match === null) return this.#fail();
    this.#at = NUMBER.lastIndex;
    const [digits, fraction, exponent] = match;
    if (fraction !== undefined || exponent !== undefined) return new Float(Number(digits));
    const number = Number(digits);
    if (Number.isSafeInteger(number)) return number + 0; // not -0
    if (digits.length > MAX_DIGITS) throw new TemplateFault(`the JSON has a number of more than ${MAX_DIGITS} digits`);
    return BigInt(digits);
  }

  #skipSpace(): void {
    SPACE.lastIndex = this.#at;
    SPACE.test(this.text);
    this.#at = SPACE.lastIndex;
  }

  #fail(): never {
    throw new TemplateFault(`the text is not JSON at position ${this.#at}`);
  }
}
