// Splits the source of a chat template into tokens, with the white-space rules that transformers sets: trim_blocks and
// lstrip_blocks. Linear in the length of the source.
import { unescape } from './string-literal.js';
import { TemplateFault, Float, integer, type Value } from './values.js';
import { SPACE, trimEnd } from './white-space.js';

export interface Token {
  readonly type: 'text' | '{{' | '}}' | '{%' | '%}' | 'name' | 'constant' | 'operator' | 'end';
  /** The text, the name or the operator. */
  readonly text: string;
  /** The value of a constant. */
  readonly value?: Value;
  readonly line: number;
}

const OPERATORS = '\\*\\*|//|==|!=|<=|>=|[-+/*%~\\[\\](){}<>=.:|,;]';
const INTEGER = '0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0[xX](?:_?[\\da-fA-F])+|[1-9](?:_?\\d)*|0(?:_?0)*';
const DIGITS = '(?:\\d+_)*\\d+';
const FLOAT = `(?<!\\.)${DIGITS}(?:(?:\\.${DIGITS})?[eE][+-]?${DIGITS}|\\.${DIGITS})`;
const STRING = `'[^'\\\\]*(?:\\\\[^][^'\\\\]*)*'|"[^"\\\\]*(?:\\\\[^][^"\\\\]*)*"`;

const TAG_START = /\{(?:%([-+]?)|\{([-+]?)|#([-+]?))/g;
const RAW_START = new RegExp(`\\{%[-+]?[${SPACE}]*raw[${SPACE}]*(?:-%\\}[${SPACE}]*|%\\})`, 'y');
const RAW_END = new RegExp(`\\{%([-+]?)[${SPACE}]*endraw[${SPACE}]*(?:\\+%\\}|-%\\}[${SPACE}]*|%\\}\\n?)`, 'g');
const COMMENT_END = new RegExp(`\\+#\\}|-#\\}[${SPACE}]*|#\\}\\n?`, 'g');
const BLOCK_END = new RegExp(`\\+%\\}|-%\\}[${SPACE}]*|%\\}\\n?`, 'y');
const PRINT_END = new RegExp(`-\\}\\}[${SPACE}]*|\\}\\}`, 'y');
const TOKEN = new RegExp(
  `([${SPACE}]+)|(${FLOAT})|(${INTEGER})|([\\p{ID_Start}_][\\p{ID_Continue}]*)|(${STRING})|(${OPERATORS})`,
  'uy',
);
const BLANK = new RegExp(`^[${SPACE}]+$`);
const CLOSING: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' };

/** Throws TemplateFault with the line of the first error. */
export function tokenize(template: string): Token[] {
  return new Lexer(template.replace(/\r\n?/g, '\n').replace(/\n$/, '')).tokens();
}

class Lexer {
  readonly #tokens: Token[] = [];
  #at = 0;
  #line = 1;
  #counted = 0; // where #line was counted
  #startsLine = true; // whether the text before a tag begins at the start of a line

  constructor(private readonly source: string) {}

  tokens(): Token[] {
    const { source } = this;
    while (this.#at < source.length) {
      TAG_START.lastIndex = this.#at;
      const tag = TAG_START.exec(source);
      if (tag === null) {
        this.#add('text', source.slice(this.#at));
        break;
      }
      const kind = source[tag.index + 1] as '%' | '{' | '#';
      this.#addText(tag.index, tag[1] ?? tag[2] ?? tag[3] ?? '', kind !== '{');
      RAW_START.lastIndex = tag.index;
      if (kind === '%' && RAW_START.test(source)) this.#raw(RAW_START.lastIndex);
      else if (kind === '#') this.#comment(TAG_START.lastIndex);
      else this.#tag(kind, TAG_START.lastIndex);
    }
    this.#at = source.length;
    this.#add('end', '');
    return this.#tokens;
  }

  /**
   * `stripped`: whether white space between the start of the line and the tag is removed, unless a sign in the tag (`-`
   * or `+`) determines this.
   */
  #addText(end: number, sign: string, stripped: boolean): void {
    let text = this.source.slice(this.#at, end);
    if (sign === '-') text = trimEnd(text);
    else if (sign === '' && stripped) {
      const line = text.lastIndexOf('\n') + 1;
      if ((line > 0 || this.#startsLine) && BLANK.test(text.slice(line))) text = text.slice(0, line);
    }
    if (text !== '') this.#add('text', text);
    this.#at = end;
  }

  #raw(start: number): void {
    this.#moveTo(start);
    RAW_END.lastIndex = start;
    const end = RAW_END.exec(this.source);
    if (end === null) this.#fail('a raw block is not closed');
    this.#addText(end.index, end[1] as string, true);
    this.#moveTo(RAW_END.lastIndex);
  }

  #comment(start: number): void {
    COMMENT_END.lastIndex = start;
    if (COMMENT_END.exec(this.source) === null) this.#fail('a comment is not closed');
    this.#moveTo(COMMENT_END.lastIndex);
  }

  #tag(kind: '%' | '{', start: number): void {
    const { source } = this;
    this.#add(kind === '%' ? '{%' : '{{', '');
    this.#at = start;
    const expected: string[] = []; // closing brackets
    const end = kind === '%' ? BLOCK_END : PRINT_END;
    for (;;) {
      end.lastIndex = this.#at;
      if (expected.length === 0 && end.test(source)) {
        this.#add(kind === '%' ? '%}' : '}}', '');
        this.#moveTo(end.lastIndex);
        return;
      }
      if (this.#at >= source.length) this.#fail('the template ends inside a tag');
      TOKEN.lastIndex = this.#at;
      const token = TOKEN.exec(source);
      if (token === null) this.#fail(`unexpected character ${JSON.stringify(source[this.#at])}`);
      const [whole, , float, int, name, string, operator] = token;
      if (float !== undefined) this.#constant(new Float(Number(float.replaceAll('_', ''))));
      else if (int !== undefined) this.#constant(this.#int(int.replaceAll('_', '')));
      else if (name !== undefined) this.#add('name', name);
      else if (string !== undefined) this.#constant(this.#string(string));
      else if (operator !== undefined) {
        const closing = CLOSING[operator];
        if (closing !== undefined) expected.push(closing);
        else if ((operator === ')' || operator === ']' || operator === '}') && expected.pop() !== operator)
          this.#fail(`unexpected "${operator}"`);
        this.#add('operator', operator);
      }
      this.#at += whole.length;
    }
  }

  #constant(value: Value): void {
    this.#tokens.push({ type: 'constant', text: '', value, line: this.#lineHere() });
  }

  #int(digits: string): Value {
    if (digits.length > MAX_DIGITS) this.#fail(`a number has more than ${MAX_DIGITS} digits`);
    return integer(BigInt(digits));
  }

  #string(literal: string): string {
    try {
      return unescape(literal.slice(1, -1));
    } catch (error) {
      return this.#fail((error as Error).message);
    }
  }

  #add(type: Token['type'], text: string): void {
    this.#tokens.push({ type, text, line: this.#lineHere() });
  }

  #moveTo(position: number): void {
    this.#at = position;
    this.#startsLine = this.source[position - 1] === '\n';
  }

  #lineHere(): number {
    const { source } = this;
    for (let at = source.indexOf('\n', this.#counted); at !== -1 && at < this.#at; at = source.indexOf('\n', at + 1)) {
      this.#line++;
      this.#counted = at + 1;
    }
    return this.#line;
  }

  #fail(reason: string): never {
    throw new TemplateFault(`line ${this.#lineHere()}: ${reason}`);
  }
}

/** The same number as in Python. */
const MAX_DIGITS = 4_300;
