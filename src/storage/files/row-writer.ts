// Collects written bytes in rows of ROW_BYTES, for the implementations of FileStore. At most one row is in memory.

import { ROW_BYTES } from '../file-store.js';
import type { ApiError } from '../../shared/errors.js';
import type { ContentWriter } from '../file-store.js';

/** How a store saves the rows of one file or part. */
export interface RowTarget<Description, Result> {
  /** Saves one row. The bytes must have been copied when it resolves. */
  put(position: number, row: Uint8Array): Promise<void>;
  finish(description: Description, bytes: number): Promise<Result>;
  discard(): Promise<void>;
}

export class RowWriter<Description, Result> implements ContentWriter<Description, Result> {
  #row: Buffer = Buffer.alloc(0); // allocated with the first bytes
  #filled = 0;
  #position = 0;
  #bytes = 0;
  #isOver = false;

  /** `maxBytes`: maximum size; null = no limit. `tooLarge` returns the error for exceeding it. */
  constructor(
    private readonly target: RowTarget<Description, Result>,
    private readonly maxBytes: number | null,
    private readonly tooLarge: (maxBytes: number) => ApiError,
  ) {}

  get bytes(): number {
    return this.#bytes;
  }

  write(bytes: Uint8Array): Promise<void> {
    return this.#orDiscard(async () => {
      this.#bytes += bytes.length;
      if (this.maxBytes !== null && this.#bytes > this.maxBytes) throw this.tooLarge(this.maxBytes);
      for (let at = 0; at < bytes.length; ) {
        this.#grow(bytes.length - at);
        const piece = bytes.subarray(at, at + this.#row.length - this.#filled);
        this.#row.set(piece, this.#filled);
        this.#filled += piece.length;
        at += piece.length;
        if (this.#filled === ROW_BYTES) await this.#flush();
      }
    });
  }

  finish(description: Description): Promise<Result> {
    return this.#orDiscard(async () => {
      // An empty file has one empty row, so that it also counts toward the limits.
      if (this.#filled > 0 || this.#position === 0) await this.#flush();
      const result = await this.target.finish(description, this.#bytes);
      this.#end();
      return result;
    });
  }

  async discard(): Promise<void> {
    if (this.#isOver) return;
    this.#end();
    await this.target.discard();
  }

  /** Makes room for at least one of `coming` bytes. Small files do not allocate a whole row. */
  #grow(coming: number): void {
    if (this.#filled < this.#row.length) return;
    const size = Math.min(ROW_BYTES, Math.max(2 * this.#row.length, this.#filled + coming, 4_096));
    const row = Buffer.allocUnsafeSlow(size);
    row.set(this.#row.subarray(0, this.#filled));
    this.#row = row;
  }

  async #flush(): Promise<void> {
    await this.target.put(this.#position++, this.#row.subarray(0, this.#filled));
    this.#filled = 0;
  }

  #end(): void {
    this.#isOver = true;
    this.#row = Buffer.alloc(0);
    this.#filled = 0;
  }

  async #orDiscard<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isOver) throw new Error('the file is already finished or discarded');
    try {
      return await work();
    } catch (error) {
      // Errors from discard() are ignored, because the first error is the one to report. If the store is unavailable,
      // the sweep erases the rows.
      await this.discard().catch(() => undefined);
      throw error;
    }
  }
}
