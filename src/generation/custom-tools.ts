// Custom tools, whose input is free text instead of JSON, optionally constrained by a grammar. To the chat template and
// the model, such a tool is a function with one string parameter, `input`. No side effects.
import { LARK_KEYWORD, REGEX_KEYWORD } from '../engine/addon-grammar-types.js';
import type { JsonSchema, TextGrammar } from './types.js';

/** The parameters of a custom tool, as shown to the model. */
export function customParameters(grammar: TextGrammar | null): JsonSchema {
  const description =
    grammar === null
      ? 'The input as free text.'
      : `The input as text that matches this ${grammar.syntax === 'lark' ? 'Lark grammar' : 'regular expression'}:\n${grammar.definition}`;
  return withInput({ type: 'string', description });
}

/** The schema that constrains the call's arguments. */
export function boundParameters(grammar: TextGrammar | null): JsonSchema {
  if (grammar === null) return withInput({ type: 'string' });
  return withInput({
    type: 'string',
    [grammar.syntax === 'lark' ? LARK_KEYWORD : REGEX_KEYWORD]: grammar.definition,
  });
}

const withInput = (input: JsonSchema): JsonSchema => ({
  type: 'object',
  properties: { input },
  required: ['input'],
  additionalProperties: false,
});

/** The arguments of a call with this input, as JSON. */
export const customArguments = (input: string): string => JSON.stringify({ input });

/**
 * Returns the `input` parameter of a call's arguments, or the arguments themselves if they do not have the expected
 * form.
 */
function customInput(argumentsText: string): string {
  try {
    const value: unknown = JSON.parse(argumentsText);
    const input = (value as { input?: unknown } | null)?.input;
    return typeof input === 'string' ? input : argumentsText;
  } catch {
    return argumentsText;
  }
}

/** The start of the arguments, up to and including the opening quotation mark of the input. */
const HEAD = /^\s*\{\s*"input"\s*:\s*"/;
/** Matches any prefix of a text that HEAD matches. */
const PARTIAL_HEAD = /^\s*(\{\s*("(i(n(p(u(t("\s*(:\s*)?)?)?)?)?)?)?)?)?$/;
/** A sequence of unescaped characters, or one escape sequence. */
const PIECE = /[^"\\]+|\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))/y;
const ESCAPES: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

/** Decodes a custom tool call's input incrementally from the JSON text of its arguments. */
export class CustomInputReader {
  #state: 'head' | 'text' | 'end' | 'other' = 'head';
  /** JSON text that has not been decoded yet. */
  #rest = '';

  /** Takes the next part of the JSON text and returns the part of the input that can be decoded now. */
  add(json: string): string {
    if (this.#state === 'end') return '';
    this.#rest += json;
    if (this.#state === 'head') {
      const head = HEAD.exec(this.#rest);
      if (head !== null) {
        this.#rest = this.#rest.slice(head[0].length);
        this.#state = 'text';
      } else if (!PARTIAL_HEAD.test(this.#rest)) this.#state = 'other';
    }
    return this.#state === 'text' ? this.#decode() : '';
  }

  /** Returns the rest of the input. `complete`: false if the call was truncated. */
  end(complete: boolean): string {
    const rest = this.#rest;
    const { [this.#state]: text } = {
      head: complete ? customInput(rest) : '',
      text: '',
      end: '',
      other: complete ? customInput(rest) : rest,
    };
    this.#state = 'end';
    this.#rest = '';
    return text;
  }

  #decode(): string {
    let text = '';
    let at = 0;
    for (;;) {
      PIECE.lastIndex = at;
      const piece = PIECE.exec(this.#rest);
      if (piece === null) break;
      at = PIECE.lastIndex;
      const [plain, code, escape] = piece;
      if (code !== undefined) text += String.fromCharCode(Number.parseInt(code, 16));
      else text += escape === undefined ? plain : (ESCAPES[escape] ?? escape);
    }
    if (this.#rest[at] === '"') {
      this.#state = 'end';
      this.#rest = '';
      return text;
    }
    this.#rest = this.#rest.slice(at);
    // A high surrogate is held back until the low surrogate arrives, so that no delta ends within a character.
    const last = text.charCodeAt(text.length - 1);
    if (!(last >= 0xd800 && last <= 0xdbff)) return text; // includes the empty text, whose last code is NaN
    this.#rest = `\\u${last.toString(16)}${this.#rest}`;
    return text.slice(0, -1);
  }
}
