// Calls whose arguments stand between tags, each by its name, as Qwen3-Coder, GLM, MiniMax and DeepSeek V3.2 write them:
//
//   <function=get_weather>
//   <parameter=location>
//   San Francisco
//   </parameter>
//   </function>
//
// What the tags are is each syntax's own affair. Values are bare text; the tool's schema decides which are strings, if the
// tag does not say so. They are told as the JSON object they mean: strings as they come, other values when they are
// whole. Pure.
import type { GrammarOptions } from '../../../engine/addon-types.js';
import { MAX_HELD, partialAtEnd, type CallableTools, type CallReader, type CallSink, type CallState } from './call-reader.js';
import { isJsonSpace } from './json-scanner.js';
import { kindOf, valueKinds, type ParametersSchema, type ValueKind, type ValueKinds } from './value-kinds.js';

export interface Tags {
  /** Around the tool's name. Without an ending the name goes on up to white space or a tag. */
  readonly call: readonly [before: string, behind: string | null];
  /** Around a parameter's name. Between the texts behind it there may be white space; a string is told from other values by which it is, if they differ. */
  readonly parameter: readonly [before: string, behindText: readonly string[], behindJson: readonly string[]];
  readonly endParameter: string;
  /** Of the call; with `closes` it is what closes the section too. */
  readonly end: string;
  readonly closes: boolean;
  /** A line break at either end of a value is not part of it. */
  readonly framed: boolean;
}

/** White space as a template has it: behind the parts of a parameter's opening, and behind its end. */
export interface TagSpacing { readonly within: string; readonly behind: string }

/** The same for the engine's grammar. */
export function taggedSpelling(tags: Tags, spacing: TagSpacing, schema: ParametersSchema): NonNullable<GrammarOptions['spelling']> {
  const { named, others } = valueKinds(schema);
  const frame = tags.framed ? '\n' : '';
  const [nameOpen, behindText, behindJson] = tags.parameter;
  return {
    nameOpen,
    textOpen: behindText.join(spacing.within) + frame, jsonOpen: behindJson.join(spacing.within) + frame,
    valueClose: frame + tags.endParameter + spacing.behind, separator: '', textEnd: tags.endParameter,
    stringMark: '', nested: false, python: false,
    kinds: [...named].map(([name, kind]) => ({ name, kind })), others,
  };
}

/** A call in tags, for templates without a place for calls. What is no object is written as it is. */
export function writeTagged(tags: Tags, spacing: TagSpacing, members: ReadonlyMap<string, { text: string; isString: boolean }>): string {
  const frame = tags.framed ? '\n' : '';
  const [before, behindText, behindJson] = tags.parameter;
  return [...members].map(([name, { text, isString }]) => {
    const behind = isString ? behindText : behindJson;
    return `${before}${name}${behind.join(spacing.within)}${frame}${text}${frame}${tags.endParameter}${spacing.behind}`;
  }).join('');
}

const MAX_TAG = 1_024;

type Part = 'start' | 'tags' | 'behind' | 'value';

export class TaggedCall implements CallReader {
  state: CallState = 'reading';
  started = false;
  #part: Part = 'start';
  #text = '';                      // read and not understood yet
  #value = '';                     // of a value that is told whole: what is before #text
  #kinds: ValueKinds = { named: new Map(), others: 'text' };
  #name = '';
  #kind: ValueKind = 'text';
  #behind: readonly string[] = [];   // of the opening tag, still to come
  #parameters = 0;
  #opened = false;                 // the current value's first line break is behind us

  constructor(private readonly tags: Tags, private readonly tools: CallableTools, private readonly sink: CallSink) {}

  get closes(): boolean {
    return this.tags.closes;
  }

  read(text: string, at: number): number {
    this.#text += text.slice(at);
    while (this.state === 'reading' && this.#step());
    if (this.state !== 'complete') {
      if (this.state === 'broken') this.sink.finished(false);
      return text.length;
    }
    this.sink.finished(true);
    return text.length - this.#text.length;
  }

  /** Understands one more thing; false if more text is needed. */
  #step(): boolean {
    switch (this.#part) {
      case 'start': return this.#start();
      case 'tags': return this.#tag();
      case 'behind': return this.#readBehind();
      case 'value': return this.#readValue();
    }
  }

  #start(): boolean {
    const [before, behind] = this.tags.call;
    const name = behind === null ? this.#bareName() : this.#nameBetween(before, [behind]);
    if (name === null) return false;
    const schema = this.tools.get(name);
    if (schema === undefined) return this.#fail();
    this.#kinds = valueKinds(schema);
    this.started = true;
    this.sink.started(name);
    this.sink.arguments('{');
    this.#part = 'tags';
    return true;
  }

  #tag(): boolean {
    this.#skipSpace();
    const { end, parameter: [before, text, json] } = this.tags;
    if (this.#text.startsWith(end)) {
      this.#text = this.#text.slice(end.length);
      this.sink.arguments('}');
      this.state = 'complete';
      return false;
    }
    if (end.startsWith(this.#text)) return false;
    const typed = text[0] !== json[0];
    const name = this.#nameBetween(before, typed ? [text[0] as string, json[0] as string] : [text[0] as string]);
    if (name === null) return false;
    this.#name = name;
    this.#kind = kindOf(this.#kinds, name);
    if (typed) this.#kind = this.#taken === text[0] ? 'text' : 'json';
    this.#behind = text.slice(1);
    this.#part = 'behind';
    return true;
  }

  /** The rest of the opening tag. */
  #readBehind(): boolean {
    const next = this.#behind[0];
    if (next !== undefined) {
      this.#skipSpace();
      if (!this.#text.startsWith(next)) return next.startsWith(this.#text) ? false : this.#fail();
      this.#text = this.#text.slice(next.length);
      this.#behind = this.#behind.slice(1);
      return true;
    }
    const key = `${this.#parameters++ === 0 ? '' : ', '}${JSON.stringify(this.#name)}: `;
    this.#opened = !this.tags.framed;
    this.#value = '';
    this.#part = 'value';
    this.sink.arguments(this.#kind === 'text' ? `${key}"` : key);
    return true;
  }

  /** Up to the end tag: strings are told as they come, other values when they are whole. The line breaks that frame it are no part of it. */
  #readValue(): boolean {
    const { endParameter, framed } = this.tags;
    if (!this.#opened) {
      if (this.#text === '') return false;
      if (this.#text.startsWith('\n')) this.#text = this.#text.slice(1);
      this.#opened = true;
    }
    const end = this.#text.indexOf(endParameter);
    if (end === -1) {
      const held = Math.max(framed ? partialAtEnd(this.#text, `\n${endParameter}`) : 0, partialAtEnd(this.#text, endParameter));
      const half = held === 0 && /[\ud800-\udbff]$/.test(this.#text) ? 1 : 0;
      this.#take(this.#text.length - held - half);
      if (this.#value.length > MAX_HELD) this.#fail();
      return false;
    }
    this.#take(framed && end > 0 && this.#text[end - 1] === '\n' ? end - 1 : end);
    this.sink.arguments(this.#kind === 'text' ? '"' : asJson(this.#value, this.#kind));
    this.#text = this.#text.slice(this.#text.indexOf(endParameter) + endParameter.length);
    this.#part = 'tags';
    return true;
  }

  /** So many characters are sure to belong to the value. */
  #take(length: number): void {
    const text = this.#text.slice(0, length);
    this.#text = this.#text.slice(length);
    if (this.#kind !== 'text') this.#value += text;
    else if (text !== '') this.sink.arguments(JSON.stringify(text).slice(1, -1));
  }

  #taken = '';                     // which text ended the last name

  /** The name in the tag the text begins with, which ends with the first of `behind`; null if it is not whole, or (then it fails) no such tag. */
  #nameBetween(before: string, behind: readonly string[]): string | null {
    if (!this.#text.startsWith(before)) {
      if (!before.startsWith(this.#text)) this.#fail();
      return null;
    }
    const ends = behind.map((text) => ({ text, at: this.#text.indexOf(text, before.length) })).filter(({ at }) => at !== -1).sort((a, b) => a.at - b.at);
    const end = ends[0];
    if (end === undefined) {
      if (this.#text.length > MAX_TAG) this.#fail();
      return null;
    }
    const name = this.#text.slice(before.length, end.at);
    this.#taken = end.text;
    this.#text = this.#text.slice(end.at + end.text.length);
    return name;
  }

  /** Up to white space or a tag, which stays. */
  #bareName(): string | null {
    const name = /^[^\s<]+(?=[\s<])/.exec(this.#text)?.[0];
    if (name === undefined) {
      if (this.#text.length > MAX_TAG || /^[\s<]/.test(this.#text)) this.#fail();
      return null;
    }
    this.#text = this.#text.slice(name.length);
    return name;
  }

  #skipSpace(): void {
    let begin = 0;
    while (begin < this.#text.length && isJsonSpace(this.#text.charCodeAt(begin))) begin++;
    this.#text = this.#text.slice(begin);
  }

  #fail(): false {
    this.state = this.started ? 'broken' : 'foreign';
    return false;
  }
}

/** As models trained on Python write them. */
const PYTHON_WORDS: ReadonlyMap<string, string> = new Map([['True', 'true'], ['False', 'false'], ['None', 'null']]);

/** The value as it stands if it is JSON, its number's digits included, else as a string. */
function asJson(text: string, kind: ValueKind): string {
  const word = PYTHON_WORDS.get(text.trim()) ?? text.trim();
  const bare = kind === 'nullable' ? word === 'null' : isJson(word);
  return bare ? word : JSON.stringify(text);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
