// Reads calls whose arguments are between tags with their names, as Qwen3-Coder, GLM, MiniMax, MiniCPM5 and DeepSeek
// V3.2 write them:
//
//   <function=get_weather>
//   <parameter=location>
//   San Francisco
//   </parameter>
//   </function>
//
// Each syntax defines its own tags. Values have no quotes. The tool's schema decides which values are strings, unless
// the tag specifies it. Calls are emitted as the equivalent JSON object: strings as they arrive, other values when they
// are complete. No side effects.
import type { GrammarOptions } from '../../../engine/addon-grammar-types.js';
import { MAX_HELD, partialAtEnd, type CallableTools, type CallSink } from './call-reader.js';
import { endsInHalf, jsonWord, TextCall } from './text-call.js';
import { kindOf, valueKinds, type ParametersSchema, type ValueKind, type ValueKinds } from './value-kinds.js';

export interface Tags {
  /** The literals around the tool's name. If the second one is null, the name extends to white space or a tag. */
  readonly call: readonly [before: string, behind: string | null];
  /**
   * The literals around a parameter's name. White space may separate the literals after the name. If `behindText` and
   * `behindJson` differ, they distinguish strings from other values.
   */
  readonly parameter: readonly [before: string, behindText: readonly string[], behindJson: readonly string[]];
  readonly endParameter: string;
  /** The end of the call. `closes`: whether it also closes the section. */
  readonly end: string;
  readonly closes: boolean;
  /** Whether a line break at the start and at the end of a value is formatting and not part of the value. */
  readonly framed: boolean;
  /**
   * Optional delimiters around a value. After an opening delimiter, an end tag is treated as part of the value unless
   * the closing delimiter precedes it or a valid continuation of the call follows it.
   */
  readonly wrapped?: readonly [before: string, behind: string];
}

/** The white space that a template writes after each part of a parameter's opening tag and after its end tag. */
export interface TagSpacing {
  readonly within: string;
  readonly behind: string;
}

/** Describes this syntax to the engine's grammar compiler. */
export function taggedSpelling(
  tags: Tags,
  spacing: TagSpacing,
  schema: ParametersSchema,
): NonNullable<GrammarOptions['spelling']> {
  const { named, others } = valueKinds(schema);
  const frame = tags.framed ? '\n' : '';
  const [nameOpen, behindText, behindJson] = tags.parameter;
  return {
    nameOpen,
    textOpen: behindText.join(spacing.within) + frame,
    jsonOpen: behindJson.join(spacing.within) + frame,
    valueClose: frame + tags.endParameter + spacing.behind,
    separator: '',
    textEnd: tags.endParameter,
    stringMark: '',
    nested: false,
    python: false,
    kinds: [...named].map(([name, kind]) => ({ name, kind })),
    others,
  };
}

/**
 * Writes a call in tags, for templates that do not support calls. Any value other than an object is written
 * unchanged.
 */
export function writeTagged(
  tags: Tags,
  spacing: TagSpacing,
  members: ReadonlyMap<string, { text: string; isString: boolean }>,
): string {
  const frame = tags.framed ? '\n' : '';
  const [before, behindText, behindJson] = tags.parameter;
  return [...members]
    .map(([name, { text, isString }]) => {
      const behind = isString ? behindText : behindJson;
      return `${before}${name}${behind.join(spacing.within)}${frame}${text}${frame}${tags.endParameter}${spacing.behind}`;
    })
    .join('');
}

type Part = 'start' | 'tags' | 'behind' | 'value';

export class TaggedCall extends TextCall {
  #part: Part = 'start';
  #value = ''; // a value that is emitted as a whole: the part before `text`
  #kinds: ValueKinds = { named: new Map(), others: 'text' };
  #name = '';
  #kind: ValueKind = 'text';
  #behind: readonly string[] = []; // texts of the opening tag still to come
  #parameters = 0;
  #frame: string | null = null; // text before the end tag that ends the current value; null: the value has not started

  constructor(
    private readonly tags: Tags,
    tools: CallableTools,
    sink: CallSink,
  ) {
    super(tools, sink);
  }

  get closes(): boolean {
    return this.tags.closes;
  }

  protected override step(): boolean {
    switch (this.#part) {
      case 'start':
        return this.#start();
      case 'tags':
        return this.#tag();
      case 'behind':
        return this.#readBehind();
      case 'value':
        return this.#readValue();
    }
  }

  #start(): boolean {
    const [before, behind] = this.tags.call;
    const name = behind === null ? this.#bareName(before) : (this.takeTag(before, [behind])?.name ?? null);
    const schema = name === null ? undefined : this.start(name);
    if (schema === undefined) return false;
    this.#kinds = valueKinds(schema);
    this.sink.arguments('{');
    this.#part = 'tags';
    return true;
  }

  #tag(): boolean {
    this.skipSpace();
    const {
      end,
      parameter: [before, text, json],
    } = this.tags;
    if (this.text.startsWith(end)) {
      this.take(end.length);
      this.sink.arguments('}');
      this.state = 'complete';
      return false;
    }
    if (end.startsWith(this.text)) return false;
    const typed = text[0] !== json[0];
    const tag = this.takeTag(before, typed ? [text[0] as string, json[0] as string] : [text[0] as string]);
    if (tag === null) return false;
    this.#name = tag.name;
    this.#kind = kindOf(this.#kinds, tag.name);
    if (typed) this.#kind = tag.behind === text[0] ? 'text' : 'json';
    this.#behind = text.slice(1);
    this.#part = 'behind';
    return true;
  }

  /** Reads the rest of the opening tag. */
  #readBehind(): boolean {
    const next = this.#behind[0];
    if (next !== undefined) {
      this.skipSpace();
      if (!this.text.startsWith(next)) return next.startsWith(this.text) ? false : this.fail();
      this.take(next.length);
      this.#behind = this.#behind.slice(1);
      return true;
    }
    const key = `${this.#parameters++ === 0 ? '' : ', '}${JSON.stringify(this.#name)}: `;
    this.#frame = null;
    this.#value = '';
    this.#part = 'value';
    this.sink.arguments(this.#kind === 'text' ? `${key}"` : key);
    return true;
  }

  /**
   * Reads up to the end tag: strings are emitted as they arrive, other values when they are complete. The delimiters
   * are not part of the value.
   */
  #readValue(): boolean {
    if (this.#frame === null) {
      const [before, behind] = this.tags.wrapped ?? (this.tags.framed ? ['\n', '\n'] : ['', '']);
      if (this.text.length < before.length && before.startsWith(this.text)) return false;
      const isFramed = this.text.startsWith(before);
      if (isFramed) this.take(before.length);
      // A line break at the end is not part of the value, even if there is none at the start.
      this.#frame = isFramed || this.tags.framed ? behind : '';
    }
    const { endParameter } = this.tags;
    const { at, isEnd } = this.#findEnd(this.#frame);
    if (!isEnd) {
      this.#takeValue(at);
      if (this.#value.length > MAX_HELD) this.fail();
      return false;
    }
    this.#takeValue(this.text.endsWith(this.#frame, at) ? at - this.#frame.length : at);
    this.sink.arguments(this.#kind === 'text' ? '"' : asJson(this.#value, this.#kind));
    this.take(this.text.indexOf(endParameter) + endParameter.length);
    this.#part = 'tags';
    return true;
  }

  /** Returns the end of the value, or the position up to which the text is known to belong to it. */
  #findEnd(frame: string): { at: number; isEnd: boolean } {
    const { text } = this;
    const {
      end,
      endParameter,
      parameter: [before],
      wrapped,
    } = this.tags;
    for (let at = text.indexOf(endParameter); at !== -1; at = text.indexOf(endParameter, at + 1)) {
      if (wrapped === undefined || text.endsWith(frame, at)) return { at, isEnd: true };
      const behind = text.slice(at + endParameter.length).trimStart();
      if (behind.startsWith(end) || behind.startsWith(before)) return { at, isEnd: true };
      if (end.startsWith(behind) || before.startsWith(behind)) return { at, isEnd: false };
    }
    const held = Math.max(partialAtEnd(text, frame + endParameter), partialAtEnd(text, endParameter));
    return { at: text.length - held - (held === 0 && endsInHalf(text) ? 1 : 0), isEnd: false };
  }

  /** Consumes this many characters, which are known to belong to the value. */
  #takeValue(length: number): void {
    const text = this.take(length);
    if (this.#kind !== 'text') this.#value += text;
    else if (text !== '') this.sink.arguments(JSON.stringify(text).slice(1, -1));
  }

  /** Reads a name up to white space or a tag, which is not consumed. */
  #bareName(before: string): string | null {
    if (!this.text.startsWith(before)) {
      if (!before.startsWith(this.text)) this.fail();
      return null;
    }
    const rest = this.text.slice(before.length);
    const name = /^[^\s<]+(?=[\s<])/.exec(rest)?.[0];
    if (name === undefined) {
      if (/^[\s<]/.test(rest)) this.fail();
      this.failIfLong();
      return null;
    }
    this.take(before.length + name.length);
    return name;
  }
}

/**
 * Returns the text unchanged if it is JSON, so that numbers keep their digits. Otherwise, returns it as a JSON string.
 */
function asJson(text: string, kind: ValueKind): string {
  const word = jsonWord(text);
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
