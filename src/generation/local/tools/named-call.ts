// A call with its name in front of the bare arguments, as Mistral's newer models write it:
// get_weather[ARGS]{...}, with an id in between where the model numbers its calls. Pure.
import type { CallableTools, CallReader, CallSink, CallState } from './call-reader.js';
import { At, JsonScanner } from './json-scanner.js';

export const ARGS = '[ARGS]';
export const CALL_ID = '[CALL_ID]';

const NAME = /^[A-Za-z0-9_-]{1,128}$/;
const MAX_ID = 256;

export class NamedCall implements CallReader {
  state: CallState = 'reading';
  started = false;
  readonly #scanner = new JsonScanner();
  #name = '';
  #mark = '';                      // what follows the name, up to the arguments
  #inArguments = false;
  #told = false;                   // the arguments' first brace

  constructor(private readonly tools: CallableTools, private readonly sink: CallSink) {}

  read(text: string, at: number): number {
    let index = at;
    while (index < text.length && !this.#inArguments && this.state === 'reading') this.#takeHeader(text[index++] as string);
    if (!this.#inArguments) return index;
    const begin = index;
    while (index < text.length && this.state === 'reading') this.#take(text.charCodeAt(index++));
    this.#tell(text.slice(begin, index));
    return index;
  }

  #takeHeader(character: string): void {
    if (this.#mark === '' && character !== '[') {
      this.#name += character;
      if (!NAME.test(this.#name)) this.state = 'foreign';
      return;
    }
    this.#mark += character;
    if (this.#mark.endsWith(ARGS)) this.#inArguments = true;
    const known = this.#mark.length === 1
      ? this.tools.has(this.#name)
      : ARGS.startsWith(this.#mark) || CALL_ID.startsWith(this.#mark) || (this.#mark.startsWith(CALL_ID) && this.#mark.length <= MAX_ID);
    if (!known) this.state = 'foreign';
  }

  #take(code: number): void {
    if (!this.#scanner.accept(code)) this.state = this.started ? 'broken' : 'foreign';
    else if (this.#scanner.at === At.Done) this.state = 'complete';
    if (this.started || this.#scanner.depth === 0) return;
    this.started = true;
    this.sink.started(this.#name);
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
