// Collects bytes that arrive in chunks of any size in a single buffer. If each chunk had its own Buffer, one-byte
// chunks would take a hundred times their size in memory. Event-loop thread only.

const EMPTY = Buffer.alloc(0);

export class GrowingBytes {
  #buffer = EMPTY;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** `part` is copied. */
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

  /** Returns the collected bytes, which are valid until the next add(). */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  clear(): void {
    this.#buffer = EMPTY;
    this.#length = 0;
  }
}
