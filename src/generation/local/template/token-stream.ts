// The tokens of a chat template, as the parser reads them.
import type { Token } from './lexer.js';
import { TemplateFault } from './values.js';

export class TokenStream {
  #at = 0;

  constructor(private readonly tokens: readonly Token[]) {}

  get current(): Token {
    return this.tokens[this.#at] as Token;
  }

  /** The token after the current one. */
  get following(): Token {
    return this.tokens[this.#at + 1] ?? this.current;
  }

  next(): Token {
    const token = this.current;
    if (token.type !== 'end') this.#at++;
    return token;
  }

  isName(name: string): boolean {
    return this.current.type === 'name' && this.current.text === name;
  }

  isOperator(operator: string): boolean {
    return this.current.type === 'operator' && this.current.text === operator;
  }

  skipName(name: string): boolean {
    if (!this.isName(name)) return false;
    this.#at++;
    return true;
  }

  skipOperator(operator: string): boolean {
    if (!this.isOperator(operator)) return false;
    this.#at++;
    return true;
  }

  expectName(name?: string): string {
    const { type, text } = this.current;
    if (type !== 'name' || (name !== undefined && text !== name))
      this.fail(`expected ${name === undefined ? 'a name' : `"${name}"`}, not ${this.described()}`);
    this.#at++;
    return text;
  }

  expectOperator(operator: string): void {
    if (!this.skipOperator(operator)) this.fail(`expected "${operator}", not ${this.described()}`);
  }

  expect(type: Token['type']): void {
    if (this.current.type !== type) this.fail(`expected "${type}", not ${this.described()}`);
    this.#at++;
  }

  /** Whether a tuple without parentheses ends at the current token. */
  endsTuple(name: string | undefined): boolean {
    const { type } = this.current;
    return type === '}}' || type === '%}' || this.isOperator(')') || (name !== undefined && this.isName(name));
  }

  described(): string {
    const { type, text } = this.current;
    if (type === 'end') return 'the end of the template';
    if (type === 'text') return 'text';
    if (type === 'constant') return 'a constant';
    return `"${text === '' ? type : text}"`;
  }

  fail(reason: string): never {
    throw new TemplateFault(`line ${this.current.line}: ${reason}`);
  }
}
