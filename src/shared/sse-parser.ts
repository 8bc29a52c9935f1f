// Incremental parser for server-sent events. Accepts bytes or text, split at any position. Each chunk is decoded once,
// and complete lines are not copied. Runs in Node.js and in the browser, and depends on neither.

import { GrowingText } from './growing-text.js';

export interface SseEvent {
  /** Empty if the event has no name. */
  readonly event: string;
  /** The event's data lines, joined by line feeds. */
  readonly data: string;
  /** Undefined if the event itself has no ID. */
  readonly id: string | undefined;
}

/** Receives the data of a long event as it arrives. */
export interface SseLongData {
  text(part: string): void;
  /** The event is complete. */
  end(event: string): void;
}

export interface SseOptions {
  /** Maximum length of an event in UTF-16 units. */
  readonly maxLength: number;
  /** Creates the error for an event above the limit. */
  tooLong(): Error;
  onEvent(event: SseEvent): void;
  /** Decodes chunks in order. Default: TextDecoder; Node.js has a faster way (utf8-chunks.ts). */
  readonly decode?: (chunk: Uint8Array) => string;
  /**
   * If an event's data has more than `over` characters, it is passed to the object returned by open() instead of to
   * onEvent, so that it is not held in memory. Comments and unknown fields of this length are skipped.
   */
  readonly long?: { readonly over: number; open(): SseLongData };
}

const LF = 10,
  CR = 13,
  SPACE = 32,
  BYTE_ORDER_MARK = 0xfeff;
const DATA = 'data:';

function textDecoder(): (chunk: Uint8Array) => string {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  return (chunk) => decoder.decode(chunk, { stream: true });
}

export class SseParser {
  readonly #decode: (chunk: Uint8Array) => string;
  /** A line of at most this length exceeds neither limit, so it is not checked. */
  readonly #maxDirect: number;
  #held: string | GrowingText | null = null; // the beginning of a line
  #event = '';
  #id: string | undefined;
  #data: string | GrowingText | null = null;
  #long: SseLongData | null = null; // used instead of #data
  #longLine: 'data' | 'skipped' | null = null; // the current line is processed while it arrives
  #longLength = 0; // length of the data that #long has received
  #skippedLength = 0; // length of the skipped line
  #isFirst = true;
  #skipsLineFeed = false; // the last character was a CR, which may be half of a CRLF

  constructor(private readonly options: SseOptions) {
    this.#maxDirect = Math.min(options.maxLength, options.long?.over ?? Infinity);
    this.#decode = options.decode ?? textDecoder();
  }

  /**
   * Reports the events completed by `chunk`. The caller may reuse the chunk's memory afterwards. Errors thrown by the
   * callbacks propagate. The parser must not be used after an error.
   */
  push(chunk: Uint8Array | string): void {
    const text = typeof chunk === 'string' ? chunk : this.#decode(chunk);
    if (text === '') return;
    let at = 0;
    if (this.#isFirst) {
      this.#isFirst = false;
      if (text.charCodeAt(0) === BYTE_ORDER_MARK) at = 1;
    } else if (this.#skipsLineFeed) {
      this.#skipsLineFeed = false;
      if (text.charCodeAt(0) === LF) at = 1;
    }
    let cr = -1;
    while (at < text.length) {
      if (cr < at) cr = indexOr(text, '\r', at);
      let end = indexOr(text, '\n', at);
      let next = end + 1;
      if (cr < end) {
        end = cr;
        next = cr + 1;
        if (next === text.length) this.#skipsLineFeed = true;
        else if (text.charCodeAt(next) === LF) next++;
      }
      if (end === Infinity) {
        this.#hold(at === 0 ? text : text.slice(at));
        return;
      }
      if (this.#held !== null || this.#longLine !== null) this.#heldLine(text.slice(at, end));
      else if (this.#data === null && end - at <= this.#maxDirect && text.startsWith(DATA, at) && this.#long === null) {
        const data = text.slice(valueAt(text, at + DATA.length), end);
        // The usual event, one data line followed by an empty line, is reported without buffering.
        const empty = emptyLine(text, next);
        next += empty;
        if (empty > 0) this.#emit(data);
        else this.#data = data;
      } else this.#line(text, at, end);
      at = next;
    }
  }

  /**
   * Reports an event that is cut off by the end of the stream. The standard drops such an event, but some servers omit
   * the last empty line. `withLine`: whether the last line counts even though its line end is missing.
   */
  end(withLine: boolean): void {
    const line = this.#held?.toString().trimEnd() ?? '';
    this.#held = this.#longLine = null;
    if (withLine) this.#line(line, 0, line.length);
    this.#dispatch();
  }

  #hold(part: string): void {
    if (this.#longLine !== null) {
      this.#longPart(part);
      return;
    }
    if (this.#held === null) this.#held = part;
    else {
      if (typeof this.#held === 'string') this.#held = growing(this.#held);
      this.#held.add(part);
    }
    const { maxLength, tooLong, long } = this.options;
    if (this.#held.length + (this.#data?.length ?? 0) > maxLength) throw tooLong();
    if (long === undefined || this.#held.length <= long.over) return;
    const line = this.#held.toString();
    this.#held = null;
    if (line.startsWith(DATA)) {
      this.#longLine = 'data';
      const isFirstLine = this.#long === null && this.#data === null;
      if (this.#long === null) this.#openLong(long.open());
      if (!isFirstLine) this.#longPart('\n');
      this.#longPart(line.slice(valueAt(line, DATA.length)));
    } else {
      this.#longLine = 'skipped';
      this.#skippedLength = 0;
      this.#longPart(line);
    }
  }

  /** `rest`: the end of a line that started in an earlier chunk. */
  #heldLine(rest: string): void {
    if (this.#longLine === null) {
      const line = this.#held === null ? rest : this.#held.toString() + rest;
      this.#held = null;
      this.#line(line, 0, line.length);
    } else {
      this.#longPart(rest);
      this.#longLine = null;
    }
  }

  #longPart(part: string): void {
    if (this.#longLine === 'skipped') this.#skippedLength += part.length;
    else this.#longLength += part.length;
    if (Math.max(this.#longLength, this.#skippedLength) > this.options.maxLength) throw this.options.tooLong();
    if (this.#longLine !== 'skipped') this.#long?.text(part);
  }

  /** Routes the event's data to `long`, including the data received so far. */
  #openLong(long: SseLongData): void {
    const data = this.#data?.toString();
    this.#data = null;
    this.#long = long;
    if (data !== undefined) this.#longPart(data);
  }

  /** Processes the line in `text` from `at` to `end`. */
  #line(text: string, at: number, end: number): void {
    if (at === end) this.#dispatch();
    else if (text.startsWith(DATA, at)) this.#dataLine(text.slice(valueAt(text, at + 5), end));
    else if (text.startsWith('event:', at)) this.#event = text.slice(valueAt(text, at + 6), end);
    else if (text.startsWith('id:', at)) this.#id = text.slice(valueAt(text, at + 3), end);
    else if (end - at <= 5) {
      // A field without a colon has an empty value.
      const name = text.slice(at, end);
      if (name === 'data') this.#dataLine('');
      else if (name === 'event') this.#event = '';
      else if (name === 'id') this.#id = '';
    }
  }

  #dataLine(line: string): void {
    if (this.#long !== null) {
      this.#longPart(`\n${line}`);
      return;
    }
    if (this.#data === null) this.#data = line;
    else {
      if (typeof this.#data === 'string') this.#data = growing(this.#data);
      this.#data.add(`\n${line}`);
    }
    const { maxLength, tooLong, long } = this.options;
    if (this.#data.length > maxLength) throw tooLong();
    if (long !== undefined && this.#data.length > long.over) this.#openLong(long.open());
  }

  #dispatch(): void {
    const data = this.#data,
      long = this.#long;
    this.#data = this.#long = null;
    this.#longLength = 0;
    if (data !== null) this.#emit(data.toString());
    else {
      // The standard ignores events without data lines, which some servers send as keep-alives.
      const event = this.#event;
      this.#event = '';
      this.#id = undefined;
      long?.end(event);
    }
  }

  #emit(data: string): void {
    const event = this.#event,
      id = this.#id;
    if (event !== '') this.#event = '';
    if (id !== undefined) this.#id = undefined;
    this.options.onEvent({ event, data, id });
  }
}

function indexOr(text: string, character: string, from: number): number {
  const at = text.indexOf(character, from);
  return at < 0 ? Infinity : at;
}

/** A single space after the colon is not part of the value. */
function valueAt(text: string, at: number): number {
  return text.charCodeAt(at) === SPACE ? at + 1 : at;
}

/** Length of the line end at `at`, or 0 if the line is not empty or has not arrived completely. */
function emptyLine(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code === LF ? 1 : code === CR && text.charCodeAt(at + 1) === LF ? 2 : 0;
}

function growing(text: string): GrowingText {
  const grown = new GrowingText();
  grown.add(text);
  return grown;
}
