// Whether the storage tier's worker runs, in memory that all threads share, so that no request waits for an answer that
// will not come.

export const TIER_STATE_BYTES = 4;

export class TierState {
  readonly #cells: Int32Array;

  /** `memory`: TIER_STATE_BYTES bytes, initially zero. */
  constructor(memory: SharedArrayBuffer) {
    this.#cells = new Int32Array(memory);
  }

  get isUp(): boolean {
    return Atomics.load(this.#cells, 0) === 1;
  }
  set(isUp: boolean): void {
    Atomics.store(this.#cells, 0, isUp ? 1 : 0);
  }
}
