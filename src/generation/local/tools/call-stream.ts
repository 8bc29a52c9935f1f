// Finds the calls in a model's text, including the markers, white space and separators around them, and recovers text
// that only looked like a call. Text arrives in chunks, and the result does not depend on where it is split. One
// instance per choice. No side effects.
//
//   between ──'{', a name, '<function='──► call ──complete──► between
//      │                                    ├──broken────► (nothing more is read)
//      └──anything else──► content ◄──foreign┘   up to a marker
//                          (`junk` after a complete call in the same section)
import { partialAtEnd, type CallableTools, type CallReader, type CallSink } from './call-reader.js';
import { isJsonSpace } from './json-scanner.js';

/** The syntax of calls: the markers around them, and their reader. */
export interface CallSyntax {
  readonly open: string;
  readonly close: string; // '' = calls extend to the end of the turn
  /** Whether a call without a marker may be the whole response. */
  readonly bare: boolean;
  readonly separators: string; // characters allowed between calls
  readonly skipped?: readonly string[]; // strings allowed between calls: they end a call but not the section
  readonly answer?: string; // after `open`: content follows instead of a call
  /** Returns the reader for a call that starts with this character, or null if no call starts with it. */
  reader(first: string, tools: CallableTools, sink: CallSink): CallReader | null;
}

export interface CallStreamSink extends CallSink {
  /** Receives text that is not part of a call. */
  text(text: string): void;
}

/**
 * After this many passages that looked like calls but were not, all further text is treated as content. This limits how
 * often text is read again.
 */
const MAX_FOREIGN = 16;

export class CallStream {
  #state: 'between' | 'call' | 'content' | 'junk' | 'over' = 'between';
  #text = ''; // text to read, starting at #at
  #at = 0;
  #reader: CallReader | null = null;
  #readerAt = 0; // index in #text where the call started; if it started earlier, the rest is in #taken
  #taken = '';
  #raw = ''; // marker and white space before a call of which nothing was emitted
  #afterCall = false; // a complete call came before in the same section
  #foreign = 0;
  readonly #markers: readonly string[];
  readonly #around: readonly string[]; // strings around calls, longest first

  constructor(
    private readonly syntax: CallSyntax,
    private readonly tools: CallableTools,
    private readonly sink: CallStreamSink,
  ) {
    this.#markers = [syntax.open, syntax.close].filter((marker) => marker !== '');
    this.#around = [...this.#markers, ...(syntax.skipped ?? [])];
  }

  get #longest(): number {
    return Math.max(...this.#around.map(({ length }) => length));
  }

  push(piece: string): void {
    // The remaining text may be a prefix of a marker.
    this.#text = this.#text.slice(this.#at) + piece;
    this.#at = 0;
    while (this.#at < this.#text.length && this.#step());
    if (this.#state === 'call' && this.#reader?.started === false) this.#taken += this.#text.slice(this.#readerAt);
    this.#readerAt = 0;
  }

  /**
   * Called when the engine has left the section after a close marker. The parser may have treated that marker as text
   * (within a string of the arguments); the call that it is still reading is then broken. An open marker without a call
   * becomes text.
   */
  leave(): void {
    if (this.#state === 'between' && !this.#afterCall) {
      const marker = this.#raw + this.#text.slice(this.#at);
      this.#text = this.#raw = '';
      this.#at = 0;
      if (marker !== '') this.sink.text(marker);
    }
    if (this.#state !== 'call') return;
    this.end(true);
    this.#state = this.#reader?.started === true ? 'over' : 'between';
    this.#text = this.#taken = this.#raw = '';
    this.#at = 0;
    this.#reader = null;
  }

  /** Called at the end of the turn. `natural`: whether the model itself ended it. */
  end(natural: boolean): void {
    const { bare } = this.syntax;
    const rest = this.#raw + this.#taken + this.#text.slice(this.#at);
    if (this.#state === 'call' && this.#reader?.started === true) this.sink.finished(false);
    else if (this.#state === 'junk' || this.#state === 'over' || rest === '') return;
    // A call that was cut off before its name was complete is dropped. If the model itself ended the turn there, the
    // text is emitted as content.
    else if (this.#state === 'content' || natural || bare) this.sink.text(rest);
  }

  /** Continues reading. Returns false if more text is needed. */
  #step(): boolean {
    switch (this.#state) {
      case 'between':
        return this.#between();
      case 'call':
        return this.#call();
      case 'over':
        return this.#skip(this.#text.length);
      default:
        return this.#content();
    }
  }

  #skip(length: number): true {
    this.#at += length;
    return true;
  }

  #between(): boolean {
    const { open, close, separators, answer } = this.syntax;
    const first = this.#text[this.#at] as string;
    if (this.#text.startsWith(open, this.#at)) {
      const said = answer === undefined ? '' : this.#text.substr(this.#at + open.length, answer.length);
      if (said === answer) {
        this.#raw = '';
        this.#state = 'content';
        return this.#skip(open.length + said.length);
      }
      if (answer?.startsWith(said) === true) return false;
      this.#raw += open;
      this.#afterCall = false;
      return this.#skip(open.length);
    }
    if (close !== '' && this.#text.startsWith(close, this.#at)) {
      this.#raw = '';
      this.#afterCall = false;
      return this.#skip(close.length);
    }
    const ended = this.#afterCall
      ? this.syntax.skipped?.find((text) => this.#text.startsWith(text, this.#at))
      : undefined;
    if (ended !== undefined) return this.#skip(ended.length);
    const rest = this.#text.slice(this.#at, this.#at + this.#longest);
    if ((this.#afterCall ? this.#around : this.#markers).some((marker) => marker.startsWith(rest))) return false;
    if (isJsonSpace(first.charCodeAt(0)) || separators.includes(first)) {
      if (!this.#afterCall) this.#raw += first; // after a call it is dropped
      return this.#skip(1);
    }
    this.#reader = this.#foreign < MAX_FOREIGN ? this.syntax.reader(first, this.tools, this.sink) : null;
    if (this.#reader !== null) {
      this.#state = 'call';
      this.#readerAt = this.#at;
    } else {
      this.#leaveOut();
    }
    return true;
  }

  #call(): boolean {
    const reader = this.#reader as CallReader;
    this.#at = reader.read(this.#text, this.#at);
    if (reader.started) this.#raw = this.#taken = '';
    switch (reader.state) {
      case 'reading':
        break;
      case 'complete':
        this.#state = 'between';
        this.#afterCall = reader.closes !== true;
        break;
      case 'foreign':
        this.#foreign++;
        // How much has been read so far depends on where the text was split. Therefore, all of it is read again as
        // plain text.
        if (this.#taken !== '') this.#text = this.#taken + this.#text;
        this.#at = this.#readerAt;
        this.#taken = '';
        this.#leaveOut();
        break;
      case 'broken':
        this.#state = 'over';
    }
    return true;
  }

  /**
   * The text is not a call. Up to the next marker it is content, or dropped if it follows a call in the same section.
   */
  #leaveOut(): void {
    if (this.#afterCall && this.syntax.close !== '') {
      this.#state = 'junk';
      return;
    }
    this.#state = 'content';
    if (this.#raw !== '') this.sink.text(this.#raw);
    this.#raw = '';
  }

  /** Emits or drops the text up to the next marker. */
  #content(): boolean {
    const { open, close, bare } = this.syntax;
    const opened = bare ? -1 : this.#text.indexOf(open, this.#at);
    const closed = close === '' ? -1 : this.#text.indexOf(close, this.#at);
    if (opened === -1 && closed === -1) {
      const held = bare ? 0 : Math.max(...this.#markers.map((marker) => partialAtEnd(this.#text, marker)));
      this.#pass(Math.max(this.#at, this.#text.length - held));
      return false;
    }
    // An open marker may contain the close marker (command-plus: a fence), and only its beginning may have arrived.
    const begun = bare || opened !== -1 ? this.#text.length : this.#text.length - partialAtEnd(this.#text, open);
    if (begun < closed && begun >= this.#at) {
      this.#pass(begun);
      return false;
    }
    const atOpen = closed === -1 || (opened !== -1 && opened < closed);
    this.#pass(atOpen ? opened : closed + close.length);
    this.#state = 'between';
    this.#afterCall = false;
    return true;
  }

  #pass(end: number): void {
    if (this.#state === 'content' && end > this.#at) this.sink.text(this.#text.slice(this.#at, end));
    this.#at = end;
  }
}
