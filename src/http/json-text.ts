// JSON text that grows while a response is being generated, stored in chunks outside the JavaScript heap. A prompt's
// log probabilities can reach 100 MB of text. As objects, they would take a gigabyte; as one string, they could exceed
// the maximum string length.

/** Number of characters collected before they become a chunk. */
const PIECE_CHARACTERS = 65_536;

export class JsonText {
  #open = '';
  readonly #pieces: Uint8Array[] = [];
  #bytes = 0;

  /** Approximate size in bytes. */
  get size(): number {
    return this.#bytes + this.#open.length;
  }

  add(text: string): this {
    this.#open += text;
    if (this.#open.length >= PIECE_CHARACTERS) this.#close();
    return this;
  }

  /** Appends another text. Its chunks are shared, not copied. */
  append(other: JsonText): this {
    if (other.#pieces.length > 0) {
      this.#close();
      for (const piece of other.#pieces) this.#push(piece);
    }
    return this.add(other.#open);
  }

  /** Whether there are no chunks yet. If so, toString() is cheaper than pieces(). */
  get isShort(): boolean {
    return this.#pieces.length === 0;
  }

  /** Yields the whole text, in order. */
  pieces(): readonly Uint8Array[] {
    this.#close();
    return this.#pieces;
  }

  toString(): string {
    return this.#pieces.length === 0 ? this.#open : Buffer.concat(this.#pieces).toString() + this.#open;
  }

  #close(): void {
    if (this.#open === '') return;
    this.#push(Buffer.from(this.#open));
    this.#open = '';
  }

  #push(piece: Uint8Array): void {
    this.#pieces.push(piece);
    this.#bytes += piece.length;
  }
}

/** A list whose entries are already serialized as JSON. */
export class JsonList {
  readonly #entries = new JsonText();
  #length = 0;

  get length(): number {
    return this.#length;
  }

  get size(): number {
    return this.#entries.size;
  }

  add(entry: string): void {
    this.#entries.add(this.#length++ === 0 ? entry : `,${entry}`);
  }

  /** Appends another list's entries. */
  append(other: JsonList): void {
    if (other.#length === 0) return;
    if (this.#length > 0) this.#entries.add(',');
    this.#entries.append(other.#entries);
    this.#length += other.#length;
  }

  /** Appends the list to `text` as a JSON array. */
  into(text: JsonText): void {
    text.add('[').append(this.#entries).add(']');
  }
}
