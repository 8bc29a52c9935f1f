// Reads a call written as a JSON object: {"name": "get_weather", "arguments": {...}}. Keys may come in any order,
// unknown keys are skipped, and the arguments may be a string that contains their JSON. The arguments are emitted
// character by character, as the model wrote them, as long as they are valid JSON. No side effects.
import { MAX_HELD, type CallableTools, type CallReader, type CallSink, type CallState } from './call-reader.js';
import { At, isJsonSpace, JsonScanner } from './json-scanner.js';

/** The part of the call to which the current characters belong. */
type Part = 'between' | 'key' | 'name' | 'object' | 'string';

const NAME_KEYS: ReadonlySet<string> = new Set(['name', 'tool_name']);
const ARGUMENT_KEYS: ReadonlySet<string> = new Set(['arguments', 'parameters']);
const OTHER_KEYS: ReadonlySet<string> = new Set(['type', 'id']);

export class JsonCall implements CallReader {
  state: CallState = 'reading';
  started = false;
  readonly #scanner = new JsonScanner();
  #part: Part = 'between';
  #key = '';
  #word = ''; // the current key or name, including quotes and escapes
  #name: string | null = null;
  #hasArguments = false;
  #held = ''; // arguments that preceded the name
  #fresh = ''; // arguments of this chunk, not emitted yet
  #inner: StringArguments | null = null;

  /** `exact`: an object that has other keys is not treated as a call. */
  constructor(
    private readonly tools: CallableTools,
    private readonly sink: CallSink,
    private readonly exact: boolean,
  ) {}

  read(text: string, at: number): number {
    let index = at;
    while (index < text.length && this.state === 'reading') this.#take(text.charCodeAt(index++));
    this.#emit();
    if (this.state === 'complete' || this.state === 'broken') this.sink.finished(this.state === 'complete');
    return index;
  }

  #take(code: number): void {
    const scanner = this.#scanner;
    const { at: was, depth } = scanner;
    if (!scanner.accept(code)) return this.#fail();
    switch (this.#part) {
      case 'object':
        this.#add(String.fromCharCode(code));
        if (scanner.depth === 1) this.#part = 'between';
        return;
      case 'string':
        this.#takeEscaped(code);
        return;
      case 'key':
      case 'name':
        this.#word += String.fromCharCode(code);
        if (this.#word.length > MAX_HELD) return this.#fail();
        if (scanner.at === At.Colon || scanner.at === At.Next) this.#endWord();
        return;
      case 'between':
        if (scanner.at === At.Done) return this.#end();
        if (depth !== 1 || isJsonSpace(code)) return;
        if (was === At.Value) this.#beginValue(code);
        else if ((was === At.FirstKey || was === At.Key) && scanner.at === At.String) this.#begin('key');
    }
  }

  #begin(part: 'key' | 'name'): void {
    this.#part = part;
    this.#word = '"';
  }

  #endWord(): void {
    const word = JSON.parse(this.#word) as string;
    const wasKey = this.#part === 'key';
    this.#part = 'between';
    if (wasKey) {
      this.#key = word;
      const known = NAME_KEYS.has(word) || ARGUMENT_KEYS.has(word) || OTHER_KEYS.has(word);
      if (this.exact && !known && !this.started) this.#fail();
      return;
    }
    if (!this.tools.has(word)) return this.#fail();
    this.#name = word;
    if (this.#held !== '') this.#start();
  }

  /** Starts reading the value of one of the call's top-level keys. */
  #beginValue(code: number): void {
    const first = String.fromCharCode(code);
    if (NAME_KEYS.has(this.#key) && this.#name === null) {
      if (first === '"') this.#begin('name');
      else this.#fail();
    } else if (ARGUMENT_KEYS.has(this.#key) && !this.#hasArguments) {
      this.#hasArguments = true;
      if (first === '{') {
        this.#part = 'object';
        this.#add(first);
      } else if (first === '"') {
        this.#part = 'string';
        this.#inner = new StringArguments();
      } else if (first !== 'n') {
        this.#fail(); // a number or a list is not a valid value
      }
    }
  }

  #takeEscaped(code: number): void {
    const inner = this.#inner as StringArguments;
    if (this.#scanner.at === At.Next) {
      // the closing quote
      this.#part = 'between';
      if (!inner.isWhole) this.#fail();
      return;
    }
    const text = inner.take(code, this.#scanner.at);
    if (text === null) this.#fail();
    else if (text !== '') this.#add(text);
  }

  #add(text: string): void {
    if (this.started) {
      this.#fresh += text;
      return;
    }
    this.#held += text;
    if (this.#name !== null) this.#start();
    else if (this.#held.length > MAX_HELD) this.#fail();
  }

  #start(): void {
    this.started = true;
    this.sink.started(this.#name as string);
    this.#fresh = this.#held;
    this.#held = '';
  }

  #end(): void {
    if (this.#name === null) return this.#fail();
    if (!this.started) {
      // a tool without arguments
      this.#held = '{}';
      this.#start();
    }
    this.state = 'complete';
  }

  #fail(): void {
    this.state = this.started ? 'broken' : 'foreign';
  }

  #emit(): void {
    // Escape sequences produce one UTF-16 unit at a time, but a character is emitted only when it is complete.
    const half = this.state === 'reading' && /[\ud800-\udbff]$/.test(this.#fresh) ? 1 : 0;
    const text = this.#fresh.slice(0, this.#fresh.length - half);
    this.#fresh = this.#fresh.slice(text.length);
    if (text !== '') this.sink.arguments(text);
  }
}

const ESCAPES: ReadonlyMap<string, number> = new Map([
  ['n', 0x0a],
  ['t', 0x09],
  ['r', 0x0d],
  ['b', 0x08],
  ['f', 0x0c],
]);

/** Reads arguments inside a JSON string: unescapes them and checks that they are an object. */
class StringArguments {
  readonly #scanner = new JsonScanner();
  #escape = ''; // the escape so far without the backslash; for \u it starts with 'u'
  #escaped = false;

  /** Whether the arguments are complete or empty. */
  get isWhole(): boolean {
    return this.#scanner.at === At.Done || this.#scanner.at === At.Object;
  }

  /**
   * Returns the text that a character of the string adds to the arguments, or null if it makes the arguments invalid.
   * `outer`: the position of the scanner of the enclosing object after that character.
   */
  take(code: number, outer: At): string | null {
    if (outer !== At.String) {
      // within an escape
      if (outer === At.Escape) this.#escape = '';
      else this.#escape += String.fromCharCode(code);
      this.#escaped = true;
      return '';
    }
    const unit = this.#escaped ? unescaped(this.#escape + String.fromCharCode(code)) : code;
    this.#escaped = false;
    const { at } = this.#scanner;
    if ((at === At.Object || at === At.Done) && isJsonSpace(unit)) return '';
    return this.#scanner.accept(unit) ? String.fromCharCode(unit) : null;
  }
}

/** Returns the character for `n`, `"` or `u00e9`. */
function unescaped(escape: string): number {
  return escape.startsWith('u') ? parseInt(escape.slice(1), 16) : (ESCAPES.get(escape) ?? escape.charCodeAt(0));
}
