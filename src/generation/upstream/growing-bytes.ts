// Bytes that arrive in pieces of any size, in one buffer: a Buffer for each one-byte chunk would take a hundred times its size.
// Event-loop thread only.

const EMPTY = Buffer.alloc(0);

export class GrowingBytes {
  #buffer = EMPTY;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Copies `part`. */
  add(part: Buffer): void {
    const length = this.#length + part.length;
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(256, 2 * length));
      this.#buffer.copy(larger, 0, 0, this.#length);
      this.#buffer = larger;
    }
    part.copy(this.#buffer, this.#length);
    this.#length = length;
  }

  /** What has arrived; valid until the next add(). */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  clear(): void {
    this.#buffer = EMPTY;
    this.#length = 0;
  }
}
