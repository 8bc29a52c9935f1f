// Whether the storage tier's worker is running, in memory shared by all threads, so that no request waits for a
// response that will never arrive.

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
