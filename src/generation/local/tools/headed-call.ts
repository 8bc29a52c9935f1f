// Calls with a header in front of their bare JSON arguments: the tool's name, perhaps a number, and markers between
// them, as Mistral, Kimi, DeepSeek and gpt-oss write them. The header is each syntax's own affair. Pure.
import type { CallableTools, CallReader, CallSink, CallState } from './call-reader.js';
import { At, JsonScanner } from './json-scanner.js';

/** A header that a text begins with: the tool's name and how long it is; `more`: it may be one yet; null: it is none. */
export type Header = { readonly name: string; readonly length: number } | 'more' | null;

const MAX_HEADER = 2_048;

export class HeadedCall implements CallReader {
  state: CallState = 'reading';
  started = false;
  readonly #scanner = new JsonScanner();
  #header = '';
  #name: string | null = null; // as soon as the header is whole
  #behind = ''; // of the arguments: what it took to see that
  #told = false; // the arguments' first brace

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
    this.#tell(arguments_.slice(0, taken));
    return from + taken;
  }

  /** Character by character: where the header ends does not depend on how the text is cut. */
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

  /** Of the arguments: what was read of them now. */
  #tell(text: string): void {
    if (!this.started) return;
    const state: CallState = this.state;
    const valid = state === 'broken' ? text.slice(0, -1) : text;
    const told = this.#told ? valid : valid.trimStart();
    if (told !== '') {
      this.#told = true;
      this.sink.arguments(told);
    }
    if (state !== 'reading') this.sink.finished(state === 'complete');
  }
}

/** What a tool's name has. */
export const NAME = '[A-Za-z0-9_.-]{1,128}';

/**
 * A header of parts: texts as they are, and patterns for what differs; the one in brackets is the tool's name. It ends
 * with its last part, which is a text.
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
      // What it goes on with is not seen yet.
      if (found.length === rest.length && index < parts.length - 1) return 'more';
      if (captured !== undefined) name = captured;
      at += found.length;
    }
    return { name, length: at };
  };
}
