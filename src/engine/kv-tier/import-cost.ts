// Estimates whether reading a prompt's KV pages from disk is faster than prefilling the prompt. For a small model,
// prefill can be faster.

/** Assumed import speed before there are measurements: 200 MB/s. */
const ASSUMED_MS_PER_BYTE = 1 / 200_000;
/** The assumption counts as much as a measured import of this size. */
const ASSUMED_BYTES = 2 ** 24;
/** After each import, the weight of all earlier imports is multiplied by this factor. */
const DECAY = 0.9;
/**
 * Whenever the estimate prevents an import, the estimated cost is multiplied by this factor, so that imports are
 * eventually tried again.
 */
const RETRY_DECAY = 0.98;

export class ImportCost {
  #bytes = ASSUMED_BYTES;
  #ms = ASSUMED_BYTES * ASSUMED_MS_PER_BYTE;

  /** Updates the estimate with the size and duration, in ms, of an import. */
  add(bytes: number, ms: number): void {
    this.#bytes = DECAY * this.#bytes + bytes;
    this.#ms = DECAY * this.#ms + ms;
  }

  /**
   * Returns whether importing `bytes` is expected to take less time than computing `tokens` prompt tokens. `tokenMs`:
   * time to compute one token, in ms; 0 = not known; the result is then true.
   */
  isFaster(bytes: number, tokens: number, tokenMs: number): boolean {
    if (tokenMs === 0 || (bytes * this.#ms) / this.#bytes < tokens * tokenMs) return true;
    this.#ms *= RETRY_DECAY;
    return false;
  }
}
