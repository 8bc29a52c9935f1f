// Whether erasing is suspended because the clock may be wrong. Kept in memory shared by all threads of a process,
// because each of them serves /readyz.

const HELD = 0,
  AHEAD_MS = 1,
  LEFT_MS = 2;

export const ERASURE_HOLD_BYTES = 3 * Float64Array.BYTES_PER_ELEMENT;

export interface HeldErasure {
  /** How far the clock is ahead of the expected time, which is the last stored time plus the uptime since then. */
  readonly aheadMs: number;
  /** How long the server must still run before it erases again, in milliseconds. */
  readonly leftMs: number;
}

export class ErasureHold {
  readonly #values: Float64Array;

  /** `buffer`: initially all zeros. */
  constructor(buffer: SharedArrayBuffer) {
    this.#values = new Float64Array(buffer);
  }

  get held(): HeldErasure | null {
    return this.#values[HELD] === 1
      ? { aheadMs: this.#values[AHEAD_MS] ?? 0, leftMs: this.#values[LEFT_MS] ?? 0 }
      : null;
  }

  set held(held: HeldErasure | null) {
    this.#values[AHEAD_MS] = held?.aheadMs ?? 0;
    this.#values[LEFT_MS] = held?.leftMs ?? 0;
    this.#values[HELD] = held === null ? 0 : 1;
  }
}
