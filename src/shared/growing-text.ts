// A text that grows in many small pieces. A string built with += keeps a 32-byte node for each piece until it is read,
// so text that arrives one byte at a time would take thirty times its size in memory. No side effects.

/** Number of pieces after which the newest part is flattened into a single string. */
const PIECES = 512;

export class GrowingText {
  #text = '';
  #newest = '';
  #pieces = 0;

  /** In UTF-16 units. */
  get length(): number {
    return this.#text.length + this.#newest.length;
  }

  add(piece: string): void {
    this.#newest += piece;
    if (++this.#pieces < PIECES) return;
    // Reading a character makes the JavaScript engine replace the tree of pieces with one flat string.
    this.#newest.charCodeAt(0);
    this.#text += this.#newest;
    this.#newest = '';
    this.#pieces = 0;
  }

  toString(): string {
    return this.#text + this.#newest;
  }
}
