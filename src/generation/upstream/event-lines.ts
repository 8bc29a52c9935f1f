// Bytes of a server-sent event stream as events. What one may have is bounded; what is not yet a whole line is held as it
// came. Event-loop thread only.

/** `data`: its lines joined. `name`: null where it has none. */
export type TakeEvent = (name: string | null, data: string) => void;

const NEWLINE = 10;

export class EventLines {
  #held: Buffer[] = [];            // a beginning of a line
  #heldBytes = 0;
  #name: string | null = null;
  #data: string | null = null;
  #begun = false;

  /** `tooLong` makes what is thrown for an event beyond `maxBytes`. */
  constructor(private readonly maxBytes: number, private readonly take: TakeEvent, private readonly tooLong: () => Error) {}

  /** Throws what `take` throws, and tooLong(). `chunk` may be used for something else afterwards. */
  push(chunk: Buffer): void {
    const end = chunk.lastIndexOf(NEWLINE);
    if (end < 0) return this.#hold(chunk);
    const whole = chunk.subarray(0, end);
    // Cut behind a line's end, so no character is cut.
    const text = this.#heldBytes === 0 ? whole.toString('utf8') : Buffer.concat([...this.#held, whole]).toString('utf8');
    this.#held = [];
    this.#heldBytes = 0;
    if (end + 1 < chunk.length) this.#hold(chunk.subarray(end + 1));
    for (let at = 0; at <= text.length;) {
      let next = text.indexOf('\n', at);
      if (next < 0) next = text.length;
      this.#line(text.slice(at, text.charCodeAt(next - 1) === 13 && next > at ? next - 1 : next));
      at = next + 1;
    }
  }

  /** The stream is over: some servers leave out the last empty line. */
  end(): void {
    if (this.#heldBytes > 0) this.#line(Buffer.concat(this.#held).toString('utf8').trimEnd());
    this.#held = [];
    this.#heldBytes = 0;
    this.#line('');
  }

  #hold(part: Buffer): void {
    this.#heldBytes += part.length;
    if (this.#heldBytes > this.maxBytes) throw this.tooLong();
    this.#held.push(Buffer.from(part));
  }

  #line(line: string): void {
    if (!this.#begun) {
      this.#begun = true;
      // A byte order mark before the first event is none of its bytes.
      if (line.charCodeAt(0) === 0xfeff) line = line.slice(1);
    }
    if (line === '') {
      const name = this.#name, data = this.#data;
      this.#name = this.#data = null;
      if (data !== null) this.take(name, data);
    } else if (line.startsWith('data:')) {
      const data = line.slice(line.charCodeAt(5) === 32 ? 6 : 5);
      this.#data = this.#data === null ? data : `${this.#data}\n${data}`;
      if (this.#data.length > this.maxBytes) throw this.tooLong();
    } else if (line.startsWith('event:')) {
      this.#name = line.slice(6).trim();
    }
  }
}
