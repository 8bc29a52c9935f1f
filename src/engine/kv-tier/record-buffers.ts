// Reuses buffers for reading and writing records, because the operating system has to map and clear the memory of each
// new buffer of this size.

/** Maximum size in bytes of the buffers that are kept for reuse. */
const MAX_KEPT_BYTES = 4 * 1024 ** 2;

export class RecordBuffers {
  #bytes = 0; // size of each kept buffer; all kept buffers have this size
  readonly #kept: Buffer[] = [];

  /** Returns a buffer with arbitrary contents. */
  take(bytes: number): Buffer {
    return (bytes === this.#bytes ? this.#kept.pop() : undefined) ?? Buffer.allocUnsafeSlow(bytes);
  }

  /** Returns a buffer for reuse. The caller must not use the buffer afterwards. */
  give(buffer: Buffer): void {
    if (buffer.length !== this.#bytes) this.#kept.length = 0;
    this.#bytes = buffer.length;
    if ((this.#kept.length + 1) * buffer.length <= MAX_KEPT_BYTES) this.#kept.push(buffer);
  }
}
