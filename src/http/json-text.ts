// JSON that grows while an answer is generated, as text, in pieces outside the JavaScript heap: a prompt's log-probabilities
// may come to a hundred megabytes, which as objects would be a gigabyte, and as one string more than there can be.

/** Characters that are gathered before they become a piece. */
const PIECE_CHARACTERS = 65_536;

export class JsonText {
  #open = '';
  readonly #pieces: Uint8Array[] = [];
  #bytes = 0;

  /** How much of it is kept, about. */
  get size(): number {
    return this.#bytes + this.#open.length;
  }

  add(text: string): this {
    this.#open += text;
    if (this.#open.length >= PIECE_CHARACTERS) this.#close();
    return this;
  }

  /** Another's text behind this one; long pieces are shared, not copied. */
  append(other: JsonText): this {
    if (other.#pieces.length > 0) {
      this.#close();
      for (const piece of other.#pieces) this.#push(piece);
    }
    return this.add(other.#open);
  }

  /** Short enough that it has no pieces yet: toString() is cheaper then. */
  get isShort(): boolean {
    return this.#pieces.length === 0;
  }

  /** All of it, in order. */
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

/** A list whose entries are JSON already. */
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

  /** Another's entries behind this one's. */
  append(other: JsonList): void {
    if (other.#length === 0) return;
    if (this.#length > 0) this.#entries.add(',');
    this.#entries.append(other.#entries);
    this.#length += other.#length;
  }

  /** As the next thing of a text. */
  into(text: JsonText): void {
    text.add('[').append(this.#entries).add(']');
  }
}
