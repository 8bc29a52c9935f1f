// A call written as Qwen3-Coder does:
//
//   <function=get_weather>
//   <parameter=location>
//   San Francisco
//   </parameter>
//   </function>
//
// Values are bare text; the tool's schema decides which are strings. They are told as the JSON object they
// mean: strings as they come, other values when they are whole. Pure.
import { MAX_HELD, partialAtEnd, type CallableTools, type CallReader, type CallSink, type CallState } from './call-reader.js';
import { isJsonSpace } from './json-scanner.js';

const FUNCTION = '<function=', PARAMETER = '<parameter=', END_PARAMETER = '</parameter>', END_FUNCTION = '</function>';

const MAX_TAG = 1_024;

type Part = 'start' | 'tags' | 'value';

/** What a schema lets a bare text be: a string; a string or null; whatever JSON it spells. */
type Kind = 'text' | 'nullable' | 'json';

export class XmlCall implements CallReader {
  state: CallState = 'reading';
  started = false;
  #part: Part = 'start';
  #text = '';                      // read and not understood yet
  #value = '';                     // of a value that is told whole: what is before #text
  #types: Readonly<Record<string, unknown>> = {};
  #kind: Kind = 'text';
  #parameters = 0;
  #opened = false;                 // the current value's first line break is behind us

  constructor(private readonly tools: CallableTools, private readonly sink: CallSink) {}

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
      case 'value': return this.#readValue();
    }
  }

  #start(): boolean {
    const name = this.#tagName(FUNCTION);
    if (name === null) return false;
    const schema = this.tools.get(name);
    if (schema === undefined) {
      this.#fail();
      return false;
    }
    const properties = schema?.['properties'];
    if (typeof properties === 'object' && properties !== null) this.#types = properties as Readonly<Record<string, unknown>>;
    this.started = true;
    this.sink.started(name);
    this.sink.arguments('{');
    this.#part = 'tags';
    return true;
  }

  #tag(): boolean {
    let begin = 0;
    while (begin < this.#text.length && isJsonSpace(this.#text.charCodeAt(begin))) begin++;
    this.#text = this.#text.slice(begin);
    if (this.#text.startsWith(END_FUNCTION)) {
      this.#text = this.#text.slice(END_FUNCTION.length);
      this.sink.arguments('}');
      this.state = 'complete';
      return false;
    }
    if (END_FUNCTION.startsWith(this.#text)) return false;
    const name = this.#tagName(PARAMETER);
    if (name === null) return false;
    const key = `${this.#parameters++ === 0 ? '' : ', '}${JSON.stringify(name)}: `;
    this.#kind = kindOf(Object.hasOwn(this.#types, name) ? this.#types[name] : undefined);
    this.#opened = false;
    this.#value = '';
    this.#part = 'value';
    this.sink.arguments(this.#kind === 'text' ? `${key}"` : key);
    return true;
  }

  /** Up to the end tag: strings are told as they come, other values when they are whole. The line breaks that frame it are no part of it. */
  #readValue(): boolean {
    if (!this.#opened) {
      if (this.#text === '') return false;
      if (this.#text.startsWith('\n')) this.#text = this.#text.slice(1);
      this.#opened = true;
    }
    const end = this.#text.indexOf(END_PARAMETER);
    if (end === -1) {
      const held = Math.max(partialAtEnd(this.#text, `\n${END_PARAMETER}`), partialAtEnd(this.#text, END_PARAMETER));
      const half = held === 0 && /[\ud800-\udbff]$/.test(this.#text) ? 1 : 0;
      this.#take(this.#text.length - held - half);
      if (this.#value.length > MAX_HELD) this.#fail();
      return false;
    }
    this.#take(end > 0 && this.#text[end - 1] === '\n' ? end - 1 : end);
    this.sink.arguments(this.#kind === 'text' ? '"' : asJson(this.#value, this.#kind));
    this.#text = this.#text.slice(this.#text.indexOf(END_PARAMETER) + END_PARAMETER.length);
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

  /** The name in the tag the text begins with; null if it is not whole, or (then it fails) no such tag. */
  #tagName(tag: string): string | null {
    if (!this.#text.startsWith(tag)) {
      if (!tag.startsWith(this.#text)) this.#fail();
      return null;
    }
    const end = this.#text.indexOf('>');
    if (end === -1) {
      if (this.#text.length > MAX_TAG) this.#fail();
      return null;
    }
    const name = this.#text.slice(tag.length, end);
    this.#text = this.#text.slice(end + 1);
    return name;
  }

  #fail(): void {
    this.state = this.started ? 'broken' : 'foreign';
  }
}

function kindOf(schema: unknown): Kind {
  if (typeof schema !== 'object' || schema === null) return 'text';
  const { type, enum: values } = schema as { type?: unknown; enum?: unknown };
  if (type === 'string') return 'text';
  if (Array.isArray(type) && type.includes('string')) return 'nullable';
  if (type !== undefined || ['anyOf', 'oneOf', 'allOf', '$ref', 'const'].some((word) => word in schema)) return 'json';
  return Array.isArray(values) && values.some((value) => typeof value !== 'string') ? 'json' : 'text';
}

/** As models trained on Python write them. */
const PYTHON_WORDS: ReadonlyMap<string, string> = new Map([['True', 'true'], ['False', 'false'], ['None', 'null']]);

/** The value as it stands if it is JSON, its number's digits included, else as a string. */
function asJson(text: string, kind: Kind): string {
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
