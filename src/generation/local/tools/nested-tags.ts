// Reads calls whose arguments are members enclosed in tags with their names; nested objects use nested tags. Items of
// arrays have the name `item`. Every tag is preceded by a mark, which does not occur in values:
//
//   MARK<invoke name="get_weather">MARK<city>ParisMARK</city>MARK<days>MARK<item>1MARK</item>MARK</days>MARK</invoke>
//
// The tool's schema distinguishes "5" from 5, an empty value from an empty array, and objects from arrays. If it allows
// several types, text that is valid JSON of an allowed type is read as that type. Calls are emitted as the equivalent
// JSON object: strings as they arrive, other values when they are complete. No side effects.
import type { GrammarOptions } from '../../../engine/addon-grammar-types.js';
import { MAX_HELD, partialAtEnd, type CallableTools, type CallSink } from './call-reader.js';
import { endsInHalf, jsonWord, TextCall } from './text-call.js';
import { typeOf, ValueTypes } from './value-types.js';

const ITEM = 'item',
  INVOKE = '<invoke name="',
  NAMED = '">';
const MAX_DEPTH = 128;

/** Describes this syntax to the engine's grammar compiler. */
export function nestedSpelling(mark: string): NonNullable<GrammarOptions['spelling']> {
  return {
    nameOpen: `${mark}<`,
    textOpen: '>',
    jsonOpen: '>',
    valueClose: `${mark}</`,
    separator: '',
    textEnd: mark,
    stringMark: '',
    nested: false,
    python: false,
    item: ITEM,
    kinds: [],
    others: 'text',
  };
}

/** The text before and after the arguments. */
export const nestedHead = (mark: string, tool: string): string => `${mark}${INVOKE}${tool}${NAMED}`;
export const nestedTail = (mark: string): string => `${mark}</invoke>`;

/**
 * Writes a past call's arguments in tags, for templates that do not support calls. `text`: the arguments' JSON. Any
 * value other than an object becomes a single member.
 */
export function writeNested(mark: string, text: string): string {
  const digits: string[] = [];
  // So that numbers keep their digits, each number is replaced by a string that consists of a mark, which no argument
  // contains, and an index.
  const kept = text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g, (token) =>
    token.startsWith('"') ? token : JSON.stringify(`${mark}${digits.push(token) - 1}`),
  );
  let parsed: unknown;
  try {
    parsed = JSON.parse(kept);
  } catch {
    parsed = null;
  }
  const tag = (name: string, value: unknown): string => `${mark}<${name}>${write(value)}${mark}</${name}>`;
  const write = (value: unknown): string => {
    if (Array.isArray(value)) return value.map((item) => tag(ITEM, item)).join('');
    if (typeof value === 'object' && value !== null)
      return Object.entries(value)
        .map(([name, member]) => tag(name, member))
        .join('');
    return typeof value !== 'string'
      ? JSON.stringify(value)
      : value.startsWith(mark)
        ? (digits[Number(value.slice(mark.length))] ?? '')
        : value;
  };
  return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)
    ? write(parsed)
    : tag('arguments', text);
}

/** An open object or array. */
interface Container {
  readonly isArray: boolean;
  readonly schema: unknown;
  members: number;
}

type Part = 'start' | 'inside' | 'value' | 'string' | 'held' | 'close';

export class NestedTagCall extends TextCall {
  #part: Part = 'start';
  #held = ''; // a value that is emitted as a whole
  #types = new ValueTypes({});
  #schema: unknown = undefined; // schema of the current value
  #allowed: Set<string> | null = null; // types of the current value; null: any
  readonly #open: Container[] = [];

  constructor(
    private readonly mark: string,
    tools: CallableTools,
    sink: CallSink,
  ) {
    super(tools, sink);
  }

  protected override step(): boolean {
    switch (this.#part) {
      case 'start':
        return this.#start();
      case 'inside':
        return this.#inside();
      case 'value':
        return this.#beginValue();
      case 'string':
      case 'held':
        return this.#readText();
      case 'close':
        return this.#closeMember();
    }
  }

  #start(): boolean {
    const name = this.#tag(INVOKE, NAMED);
    const schema = name === null ? undefined : this.start(name);
    if (schema === undefined) return false;
    this.#types = new ValueTypes(schema ?? {});
    this.sink.arguments('{');
    this.#open.push({ isArray: false, schema: schema ?? undefined, members: 0 });
    this.#part = 'inside';
    return true;
  }

  /** Reads the next member of a container, or the container's end. */
  #inside(): boolean {
    this.skipSpace();
    const within = this.#open.at(-1) as Container;
    const ends = this.#isClosing();
    if (ends === null) return false;
    const name = this.#tag(ends ? '</' : '<', '>');
    if (name === null) return false;
    if (ends) {
      this.#open.pop();
      this.sink.arguments(within.isArray ? ']' : '}');
      if (this.#open.length > 0) return true;
      if (name !== 'invoke') return this.fail();
      this.state = 'complete';
      return false;
    }
    if (this.#open.length > MAX_DEPTH) return this.fail();
    const comma = within.members > 0 ? ', ' : '';
    const before = within.isArray ? comma : `${comma}${JSON.stringify(name)}: `;
    if (before !== '') this.sink.arguments(before); // empty before a list's first item
    this.#schema = within.isArray
      ? this.#types.item(within.schema, within.members)
      : this.#types.member(within.schema, name);
    const types = this.#types.types(this.#schema);
    this.#allowed = types === null || types.size === 0 || types.has('any') ? null : types;
    within.members++;
    this.#part = 'value';
    return true;
  }

  /** Reads the content after an opening tag: text, tags, or nothing. */
  #beginValue(): boolean {
    if (this.text === '') return false;
    if (this.mark.startsWith(this.text)) return false; // more text is needed
    const may = (type: string): boolean => this.#allowed === null || this.#allowed.has(type);
    if (!this.text.startsWith(this.mark)) {
      const isString = this.#allowed?.size === 1 && this.#allowed.has('string');
      // If the schema allows strings, text that cannot start a JSON value is a string.
      const streams = isString || (may('string') && !/^[\s"{[\-0-9tfnTFN]/.test(this.text));
      this.#held = '';
      if (streams) this.sink.arguments('"');
      this.#part = streams ? 'string' : 'held';
      return true;
    }
    const ends = this.#isClosing();
    if (ends === null) return false;
    if (ends) {
      this.sink.arguments(
        may('string') ? '""' : may('array') ? '[]' : may('object') ? '{}' : may('null') ? 'null' : '""',
      );
      this.#part = 'close';
      return true;
    }
    const name = this.#peekTag();
    if (name === null) return false;
    const isArray = may('array') && (!may('object') || name === ITEM);
    this.#open.push({ isArray, schema: this.#schema, members: 0 });
    this.sink.arguments(isArray ? '[' : '{');
    this.#part = 'inside';
    return true;
  }

  /** Reads up to the next mark. */
  #readText(): boolean {
    const end = this.text.indexOf(this.mark);
    const known = end === -1 ? this.text.length - partialAtEnd(this.text, this.mark) : end;
    const half = end === -1 && known === this.text.length && endsInHalf(this.text) ? 1 : 0;
    const text = this.take(known - half);
    if (this.#part === 'held') this.#held += text;
    else if (text !== '') this.sink.arguments(JSON.stringify(text).slice(1, -1));
    if (this.#held.length > MAX_HELD) return this.fail();
    if (end === -1) return false;
    this.sink.arguments(this.#part === 'string' ? '"' : this.#asJson(this.#held));
    this.#part = 'close';
    return true;
  }

  /** Reads the tag that ends the member, regardless of the tag's name. */
  #closeMember(): boolean {
    if (this.#tag('</', '>') === null) return false;
    this.#part = 'inside';
    return true;
  }

  /**
   * Returns the text unchanged if it is JSON of an allowed type, so that numbers keep their digits. Otherwise, returns
   * it as a JSON string.
   */
  #asJson(text: string): string {
    const allowed = this.#allowed;
    const word = jsonWord(text);
    // If the value may be a string or null, any text other than the word null is a string.
    if (allowed?.size === 2 && allowed.has('string') && allowed.has('null'))
      return word === 'null' ? word : JSON.stringify(text);
    let value: unknown;
    try {
      value = JSON.parse(word);
    } catch {
      return JSON.stringify(text);
    }
    const type = typeOf(value);
    return allowed === null || allowed.has(type) || (type === 'number' && allowed.has('integer'))
      ? word
      : JSON.stringify(text);
  }

  /**
   * Whether the tag at the start of the text is a closing tag. Returns null if the text is too short to tell. If the
   * text does not start with a tag, also returns null, and the call fails.
   */
  #isClosing(): boolean | null {
    const { mark } = this;
    const tag = `${mark}<`;
    if (!this.text.startsWith(tag)) {
      if (!tag.startsWith(this.text)) this.fail();
      return null;
    }
    return this.text.length === tag.length ? null : this.text[tag.length] === '/';
  }

  /** Returns the name of the opening tag at the start of the text without consuming it, or null if it is incomplete. */
  #peekTag(): string | null {
    const end = this.text.indexOf('>', this.mark.length);
    if (end === -1) this.failIfLong();
    return end === -1 ? null : this.text.slice(this.mark.length + 1, end);
  }

  /**
   * Consumes the tag at the start of the text and returns its name. Returns null if the tag is incomplete. If it is
   * another tag, also returns null, and the call fails.
   */
  #tag(before: string, behind: string): string | null {
    return this.takeTag(this.mark + before, [behind])?.name ?? null;
  }
}
