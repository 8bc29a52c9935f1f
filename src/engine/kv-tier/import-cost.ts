// Estimates whether reading a prompt's stored pages is faster than computing the prompt. With a small model, it may not
// be.

/** Assumed until there are measurements: 200 MB/s. */
const ASSUMED_MS_PER_BYTE = 1 / 200_000;
/** Weight of the assumption, in bytes. */
const ASSUMED_BYTES = 2 ** 24;
/** Factor by which earlier imports count less after each import. */
const DECAY = 0.9;
/** Factor by which the estimate falls each time that it prevents an import, so that imports are eventually tried again. */
const RETRY_DECAY = 0.98;

export class ImportCost {
  #bytes = ASSUMED_BYTES;
  #ms = ASSUMED_BYTES * ASSUMED_MS_PER_BYTE;

  /** Takes the size and duration of an import into account. */
  add(bytes: number, ms: number): void {
    this.#bytes = DECAY * this.#bytes + bytes;
    this.#ms = DECAY * this.#ms + ms;
  }

  /**
   * Returns whether importing `bytes` is expected to take less time than computing `tokens`. `tokenMs`: time to compute
   * one token in ms. If it is 0 (not known), an import is always expected to be faster.
   */
  isFaster(bytes: number, tokens: number, tokenMs: number): boolean {
    if (tokenMs === 0 || (bytes * this.#ms) / this.#bytes < tokens * tokenMs) return true;
    this.#ms *= RETRY_DECAY;
    return false;
  }
}
