// Reads calls whose arguments are in a notation close to JSON: Python's, as LFM2 writes it, and Gemma 4's, which has
// names without quotes and strings between markers. The arguments are emitted as the equivalent JSON, with strings
// emitted as they arrive. No side effects.
import type { CallableTools, CallSink } from './call-reader.js';
import { endsInHalf, TextCall } from './text-call.js';

export interface Notation {
  /** Text before the tool's name. */
  readonly before: string;
  readonly open: string; // opens the arguments: ( or {
  readonly close: string;
  readonly assign: string; // between a name and its value: = or :
  /** Delimiters of strings, longest first. Backslash escapes are processed only within some of these delimiters. */
  readonly quotes: readonly { readonly mark: string; readonly escapes: boolean }[];
}

const MAX_DEPTH = 128;
const MAX_WORD = 4_096;

const WORDS: ReadonlyMap<string, string> = new Map([
  ['true', 'true'],
  ['false', 'false'],
  ['null', 'null'],
  ['True', 'true'],
  ['False', 'false'],
  ['None', 'null'],
]);
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const WORD = /^[A-Za-z0-9_+.-]+/;
const NAME = /^[^\s"'=:,(){}[\]<>|]+/;
const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['n', '\n'],
  ['t', '\t'],
  ['r', '\r'],
  ['b', '\b'],
  ['f', '\f'],
  ['v', '\v'],
  ['0', '\0'],
  ['\\', '\\'],
  ['/', '/'],
  ['"', '"'],
  ["'", "'"],
  ['\n', ''],
]);

type Part = 'start' | 'name' | 'firstName' | 'assign' | 'value' | 'firstValue' | 'next' | 'string';
type Container = 'arguments' | 'object' | 'array';

export class LooseCall extends TextCall {
  #part: Part = 'start';
  #pending = ''; // arguments of this chunk, not emitted yet
  readonly #open: Container[] = [];
  #quote: Notation['quotes'][number] | null = null; // delimiter of the current string
  #isName = false; // the current string is a member's name

  constructor(
    private readonly notation: Notation,
    tools: CallableTools,
    sink: CallSink,
  ) {
    super(tools, sink);
  }

  protected override emit(): void {
    if (this.started && this.#pending !== '') this.sink.arguments(this.#pending);
    this.#pending = '';
  }

  protected override step(): boolean {
    if (this.#part === 'start') return this.#start();
    if (this.#part === 'string') return this.#string();
    this.skipSpace();
    if (this.text === '') return false;
    switch (this.#part) {
      case 'firstName':
        return this.text.startsWith(this.#closer) ? this.#close() : this.#name();
      case 'name':
        return this.#name();
      case 'assign':
        return this.#assign();
      case 'firstValue':
        return this.text.startsWith(']') ? this.#close() : this.#value();
      case 'value':
        return this.#value();
      default:
        return this.#next();
    }
  }

  #start(): boolean {
    const { before, open } = this.notation;
    const text = this.text;
    if (!text.startsWith(before)) return before.startsWith(text) ? false : this.fail();
    const end = text.indexOf(open, before.length);
    const name = text.slice(before.length, end === -1 ? undefined : end);
    if (!/^[A-Za-z0-9_.-]{0,128}$/.test(name)) return this.fail();
    if (end === -1) return false;
    if (this.start(name) === undefined) return false;
    this.take(end + open.length);
    this.#begin('arguments', '{');
    return true;
  }

  get #closer(): string {
    const within = this.#open.at(-1);
    return within === 'arguments' ? this.notation.close : within === 'array' ? ']' : '}';
  }

  #begin(container: Container, text: string): void {
    this.#open.push(container);
    this.#pending += text;
    this.#part = container === 'array' ? 'firstValue' : 'firstName';
  }

  #close(): boolean {
    const was = this.#open.pop();
    this.take(1);
    this.#pending += was === 'array' ? ']' : '}';
    this.#part = 'next';
    if (this.#open.length === 0) this.state = 'complete';
    return this.#open.length > 0;
  }

  #next(): boolean {
    const first = this.text[0] as string;
    if (first === this.#closer) return this.#close();
    if (first !== ',') return this.fail();
    this.take(1);
    this.#pending += ', ';
    this.#part = this.#open.at(-1) === 'array' ? 'value' : 'name';
    return true;
  }

  /** Reads a member's name, which is either a bare word or a string. */
  #name(): boolean {
    if (this.#beginsString(true)) return true;
    if (this.#mayBeMark()) return false;
    const name = NAME.exec(this.text)?.[0];
    if (name === undefined || name.length > MAX_WORD) return this.fail();
    if (name.length === this.text.length) return false;
    this.take(name.length);
    this.#pending += JSON.stringify(name);
    this.#part = 'assign';
    return true;
  }

  #assign(): boolean {
    const assign = this.#open.at(-1) === 'arguments' ? this.notation.assign : ':';
    if (!this.text.startsWith(assign)) return this.fail();
    this.take(assign.length);
    this.#pending += ': ';
    this.#part = 'value';
    return true;
  }

  #value(): boolean {
    if (this.#beginsString(false)) return true;
    const first = this.text[0] as string;
    if (first === '{' || first === '[') {
      if (this.#open.length === MAX_DEPTH) return this.fail();
      this.take(1);
      this.#begin(first === '{' ? 'object' : 'array', first);
      return true;
    }
    if (this.#mayBeMark()) return false;
    const word = WORD.exec(this.text)?.[0];
    if (word === undefined || word.length > MAX_WORD) return this.fail();
    if (word.length === this.text.length) return false;
    const json = WORDS.get(word) ?? (NUMBER.test(word) ? word : null);
    if (json === null) return this.fail();
    this.take(word.length);
    this.#pending += json;
    this.#part = 'next';
    return true;
  }

  #beginsString(isName: boolean): boolean {
    const quote = this.notation.quotes.find(({ mark }) => this.text.startsWith(mark));
    if (quote === undefined) return false;
    this.take(quote.mark.length);
    this.#quote = quote;
    this.#isName = isName;
    this.#pending += '"';
    this.#part = 'string';
    return true;
  }

  #mayBeMark(): boolean {
    return this.notation.quotes.some(({ mark }) => mark.startsWith(this.text));
  }

  #string(): boolean {
    const { mark, escapes } = this.#quote as Notation['quotes'][number];
    const text = this.text;
    let at = 0;
    let plain = '';
    for (; at < text.length; at++) {
      if (text.startsWith(mark, at)) {
        this.text = text.slice(at + mark.length);
        this.#addString(plain);
        this.#pending += '"';
        this.#part = this.#isName ? 'assign' : 'next';
        return true;
      }
      if (mark.length > 1 && mark.startsWith(text.slice(at))) break;
      if (!escapes || text[at] !== '\\') {
        plain += text[at] as string;
        continue;
      }
      const escape = unescape(text.slice(at, at + 10));
      if (escape === null) break;
      plain += escape.text;
      at += escape.length - 1;
    }
    // Emits only complete characters.
    if (endsInHalf(plain) && !(at < text.length && text[at] !== '\\')) {
      const rest = text.slice(at);
      const half = plain.at(-1) as string;
      this.#addString(plain.slice(0, -1));
      this.text = (escapes ? `\\u${half.charCodeAt(0).toString(16)}` : half) + rest;
      return false;
    }
    this.text = text.slice(at);
    this.#addString(plain);
    return false;
  }

  #addString(text: string): void {
    this.#pending += JSON.stringify(text).slice(1, -1);
  }
}

/**
 * Returns the escape at the start of a text and its length, or null if it is incomplete. An unknown escape is plain
 * text.
 */
function unescape(text: string): { text: string; length: number } | null {
  if (text.length < 2) return null;
  const kind = text[1] as string;
  const digits = { u: 4, U: 8, x: 2 }[kind];
  if (digits === undefined) return { text: ESCAPES.get(kind) ?? text.slice(0, 2), length: 2 };
  const hex = text.slice(2, 2 + digits);
  if (!/^[0-9a-fA-F]*$/.test(hex)) return { text: text.slice(0, 2), length: 2 };
  if (hex.length < digits) return null;
  const code = parseInt(hex, 16);
  return {
    text: code > 0x10ffff ? '\ufffd' : code > 0xffff ? String.fromCodePoint(code) : String.fromCharCode(code),
    length: 2 + digits,
  };
}
