// The text of a choice's generated tokens, used to find the tokens of a substring.
import type { Engine } from '../../../engine/engine.js';

/** The text of a token sequence, and the start offset of each token in bytes. */
export class TokenText {
  private constructor(
    readonly text: string,
    private readonly ids: readonly number[],
    private readonly starts: readonly number[], // in bytes; the last entry is the length of the text
  ) {}

  /** Returns null if the bytes of the tokens are not valid UTF-8. */
  static of(engine: Pick<Engine, 'tokenBytes'>, ids: readonly number[]): TokenText | null {
    const parts = ids.map((id) => engine.tokenBytes(id));
    const starts = [0];
    for (const { length } of parts) starts.push((starts.at(-1) as number) + length);
    try {
      const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(parts));
      return new TokenText(text, ids, starts);
    } catch {
      return null;
    }
  }

  /**
   * Returns the tokens of the substring from `start` to `end`. Returns null if the substring starts or ends within
   * a token.
   */
  between(start: number, end: number): Int32Array | null {
    const before = Buffer.byteLength(this.text.slice(0, start));
    const first = this.#indexOf(before);
    const last = this.#indexOf(before + Buffer.byteLength(this.text.slice(start, end)));
    return first === null || last === null ? null : Int32Array.from(this.ids.slice(first, last));
  }

  /** Returns the index of the first token that starts at this byte offset. Returns null if no token starts there. */
  #indexOf(byte: number): number | null {
    let low = 0;
    let high = this.starts.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.starts[middle] as number) < byte) low = middle + 1;
      else high = middle;
    }
    return this.starts[low] === byte ? low : null;
  }
}
