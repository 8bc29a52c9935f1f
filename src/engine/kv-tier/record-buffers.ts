// Buffers for records that are read or written, used again because the memory of a new buffer of this size has to be
// mapped and cleared by the operating system.

/** Limits the memory that is kept while no record is read or written. */
const MAX_KEPT_BYTES = 4 * 1024 ** 2;

export class RecordBuffers {
  #bytes = 0; // size of the kept buffers, which are all equally large
  readonly #kept: Buffer[] = [];

  /** The contents of the buffer are arbitrary. */
  take(bytes: number): Buffer {
    return (bytes === this.#bytes ? this.#kept.pop() : undefined) ?? Buffer.allocUnsafeSlow(bytes);
  }

  /** Nothing may use the buffer afterwards. */
  give(buffer: Buffer): void {
    if (buffer.length !== this.#bytes) this.#kept.length = 0;
    this.#bytes = buffer.length;
    if ((this.#kept.length + 1) * buffer.length <= MAX_KEPT_BYTES) this.#kept.push(buffer);
  }
}
