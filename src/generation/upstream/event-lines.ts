// Parses the bytes of a server-sent event stream. The size of one event is bounded. The data of a long event is read as
// JSON while it arrives (json-reader.ts), so that neither its full text nor skipped parts are kept in memory.
// Event-loop thread only.
import { StringDecoder } from 'node:string_decoder';
import { GrowingText } from '../../shared/growing-text.js';
import { GrowingBytes } from './growing-bytes.js';
import type { JsonReader } from './json-reader.js';

/**
 * One event. `name` is null if it has none. `data`: its data lines joined. `value`: for a long event, the JSON that was
 * read, for which `reserved` bytes of memory are reserved.
 */
export type StreamEvent =
  | { readonly name: string | null; readonly data: string }
  | { readonly name: string | null; readonly value: unknown; readonly reserved: number };

export interface EventLineLimits {
  /** Maximum bytes of one event. */
  readonly maxBytes: number;
  /** Creates the error for an event above the limit. */
  tooLong(): Error;
  /** Creates a reader for the data of a long event. */
  longReader(): JsonReader;
}

const NEWLINE = 10;
/** Event data longer than this many characters is read while it arrives. */
const LONG = 65_536;
const DATA = 'data:';

interface LongData {
  readonly reader: JsonReader;
  readonly decoder: StringDecoder;
  bytes: number;
}

export class EventLines {
  readonly #held = new GrowingBytes(); // the beginning of a line
  readonly #events: StreamEvent[] = [];
  #name: string | null = null;
  #data: string | GrowingText | null = null;
  #long: LongData | null = null; // used instead of #data
  #isInLongLine = false; // whether the current line belongs to #long, or is skipped if #long is null
  #skipped = 0; // bytes of the skipped line
  #begun = false;
  #failure: unknown; // thrown after the last of #events
  #failed = false;

  constructor(private readonly limits: EventLineLimits) {}

  /**
   * Returns the next complete event. Errors from tooLong() or the long-event reader are thrown after all earlier
   * events.
   */
  next(): StreamEvent | undefined {
    if (this.#failed && this.#events.length === 0) throw this.#failure;
    return this.#events.shift();
  }

  /** `chunk` may be reused by the caller afterwards. */
  push(chunk: Buffer): void {
    this.#guarded(() => this.#push(chunk));
  }

  /** Called at the end of the stream. Some upstreams omit the last empty line. */
  end(): void {
    this.#guarded(() => this.#end());
  }

  #guarded(work: () => void): void {
    if (this.#failed) return;
    try {
      work();
    } catch (error) {
      this.#failed = true;
      this.#failure = error;
    }
  }

  #push(chunk: Buffer): void {
    let rest = chunk;
    if (this.#isInLongLine) {
      const end = rest.indexOf(NEWLINE);
      this.#longLine(end < 0 ? rest : rest.subarray(0, end));
      if (end < 0) return;
      this.#isInLongLine = false;
      rest = rest.subarray(end + 1);
    }
    const end = rest.lastIndexOf(NEWLINE);
    if (end < 0) return this.#hold(rest);
    const whole = rest.subarray(0, end);
    // The cut is after a line end, so no character is split.
    let text: string;
    if (this.#held.length === 0) text = whole.toString('utf8');
    else {
      this.#held.add(whole);
      text = this.#held.bytes().toString('utf8');
      this.#held.clear();
    }
    if (end + 1 < rest.length) this.#hold(rest.subarray(end + 1));
    for (let at = 0; at <= text.length; ) {
      let next = text.indexOf('\n', at);
      if (next < 0) next = text.length;
      this.#line(text.slice(at, text.charCodeAt(next - 1) === 13 && next > at ? next - 1 : next));
      at = next + 1;
    }
  }

  #end(): void {
    if (this.#held.length > 0) this.#line(this.#held.bytes().toString('utf8').trimEnd());
    this.#held.clear();
    this.#isInLongLine = false;
    this.#line('');
  }

  #hold(part: Buffer): void {
    this.#held.add(part);
    if (this.#held.length > this.limits.maxBytes) throw this.limits.tooLong();
    if (this.#held.length <= LONG) return;
    const bytes = this.#held.bytes();
    this.#isInLongLine = true;
    if (bytes.toString('latin1', 0, DATA.length) === DATA) {
      this.#openLong();
      this.#longLine(bytes.subarray(DATA.length));
    } else {
      // A comment or an unused field.
      this.#skipped = 0;
      this.#longLine(bytes);
    }
    this.#held.clear();
  }

  /** Reads or skips more of a line that is processed while it arrives. */
  #longLine(part: Buffer): void {
    const { maxBytes, tooLong } = this.limits;
    if (this.#long === null) {
      this.#skipped += part.length;
      if (this.#skipped > maxBytes) throw tooLong();
      return;
    }
    this.#long.bytes += part.length;
    if (this.#long.bytes > maxBytes) throw tooLong();
    this.#long.reader.push(this.#long.decoder.write(part));
  }

  /** From here on the event's data is read while it arrives. */
  #openLong(): void {
    if (this.#long !== null) return;
    this.#long = { reader: this.limits.longReader(), decoder: new StringDecoder('utf8'), bytes: 0 };
    if (this.#data !== null) {
      const data = this.#data.toString();
      this.#long.bytes += data.length;
      this.#long.reader.push(`${data}\n`);
    }
    this.#data = null;
  }

  #line(line: string): void {
    if (!this.#begun) {
      this.#begun = true;
      // A byte order mark before the first event is skipped.
      if (line.charCodeAt(0) === 0xfeff) line = line.slice(1);
    }
    if (line === '') this.#event();
    else if (line.startsWith(DATA)) this.#dataLine(line.slice(line.charCodeAt(5) === 32 ? 6 : 5));
    else if (line.startsWith('event:')) this.#name = line.slice(6).trim();
  }

  #dataLine(line: string): void {
    if (this.#long !== null) {
      this.#long.bytes += line.length;
      if (this.#long.bytes > this.limits.maxBytes) throw this.limits.tooLong();
      this.#long.reader.push(`\n${line}`);
      return;
    }
    if (this.#data === null) this.#data = line;
    else {
      if (typeof this.#data === 'string') {
        const first = this.#data;
        this.#data = new GrowingText();
        this.#data.add(first);
      }
      this.#data.add(`\n${line}`);
    }
    if (this.#data.length > this.limits.maxBytes) throw this.limits.tooLong();
    if (this.#data.length > LONG) this.#openLong();
  }

  /** Events without data are ignored. Some upstreams send them as keep-alives. */
  #event(): void {
    const name = this.#name,
      data = this.#data?.toString() ?? '',
      long = this.#long;
    this.#name = this.#data = this.#long = null;
    if (long !== null) {
      long.reader.push(long.decoder.end());
      this.#events.push({ name, value: long.reader.end(), reserved: long.reader.reserved });
    } else if (data.trim() !== '') this.#events.push({ name, data });
  }
}
