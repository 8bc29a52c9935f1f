// Reads calls with a header before their JSON arguments, as Mistral, Kimi, DeepSeek and gpt-oss write them. The header
// contains the tool's name, possibly a number, and markers. Each syntax defines its own header. No side effects.
import type { CallableTools, CallReader, CallSink, CallState } from './call-reader.js';
import { At, JsonScanner } from './json-scanner.js';

/**
 * A header at the start of a text: the tool's name, and the length of the header. `more`: whether the text may be the
 * beginning of a header. Null if the text is not a header.
 */
export type Header = { readonly name: string; readonly length: number } | 'more' | null;

const MAX_HEADER = 2_048;

export class HeadedCall implements CallReader {
  state: CallState = 'reading';
  started = false;
  readonly #scanner = new JsonScanner();
  #header = '';
  #name: string | null = null; // set once the header is complete
  #behind = ''; // consumed beginning of the arguments
  #emitted = false; // the arguments' first brace was emitted

  constructor(
    private readonly header: (text: string) => Header,
    private readonly tools: CallableTools,
    private readonly sink: CallSink,
  ) {}

  read(text: string, at: number): number {
    let index = at;
    while (index < text.length && this.#name === null && this.state === 'reading')
      this.#takeHeader(text[index++] as string);
    if (this.#name === null) return index;
    const arguments_ = this.#behind + text.slice(index);
    const from = index - this.#behind.length;
    this.#behind = '';
    let taken = 0;
    while (taken < arguments_.length && this.state === 'reading') this.#take(arguments_.charCodeAt(taken++));
    this.#emit(arguments_.slice(0, taken));
    return from + taken;
  }

  /** Reads character by character, so that the end of the header does not depend on where the text is split. */
  #takeHeader(character: string): void {
    this.#header += character;
    const header = this.header(this.#header);
    if (header === null || this.#header.length > MAX_HEADER) this.state = 'foreign';
    else if (header !== 'more') {
      this.#behind = this.#header.slice(header.length);
      if (this.tools.has(header.name)) this.#name = header.name;
      else this.state = 'foreign';
    }
  }

  #take(code: number): void {
    if (!this.#scanner.accept(code)) this.state = this.started ? 'broken' : 'foreign';
    else if (this.#scanner.at === At.Done) this.state = 'complete';
    if (this.started || this.#scanner.depth === 0) return;
    this.started = true;
    this.sink.started(this.#name as string);
  }

  /** Emits the newly read part of the arguments. */
  #emit(text: string): void {
    if (!this.started) return;
    const state: CallState = this.state;
    const valid = state === 'broken' ? text.slice(0, -1) : text;
    const added = this.#emitted ? valid : valid.trimStart();
    if (added !== '') {
      this.#emitted = true;
      this.sink.arguments(added);
    }
    if (state !== 'reading') this.sink.finished(state === 'complete');
  }
}

/** The characters of a tool's name. */
export const NAME = '[A-Za-z0-9_.-]{1,128}';

/**
 * Builds a matcher for a header that consists of literals and patterns. The pattern that has a group matches the tool's
 * name. The last part must be a literal, with which the header ends.
 */
export function headerOf(parts: readonly (string | RegExp)[]): (text: string) => Header {
  return (text) => {
    let at = 0;
    let name = '';
    for (const [index, part] of parts.entries()) {
      const rest = text.slice(at);
      if (typeof part === 'string') {
        if (!rest.startsWith(part)) return part.startsWith(rest) ? 'more' : null;
        at += part.length;
        continue;
      }
      const [found, captured] = part.exec(rest) ?? [null];
      if (found === null) return rest === '' ? 'more' : null;
      // The text after it has not arrived yet.
      if (found.length === rest.length && index < parts.length - 1) return 'more';
      if (captured !== undefined) name = captured;
      at += found.length;
    }
    return { name, length: at };
  };
}
