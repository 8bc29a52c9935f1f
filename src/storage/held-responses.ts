// Tracks which responses are held, that is, protected from erasure. Holds are counted in memory shared by all threads,
// with one row of counters per thread. IDs are hashed to counters. An ID that shares a counter with a held ID also
// counts as held, which only delays its erasure until a later sweep. A thread writes only its own row.

const SLOTS = 8_192;

export class HeldResponses {
  readonly #counts: Int32Array;
  readonly #rows: number;

  static bytes(rows: number): number {
    return rows * SLOTS * Int32Array.BYTES_PER_ELEMENT;
  }

  /** `row`: this thread's row. */
  constructor(
    buffer: SharedArrayBuffer = new SharedArrayBuffer(HeldResponses.bytes(1)),
    private readonly row = 0,
  ) {
    this.#counts = new Int32Array(buffer);
    this.#rows = this.#counts.length / SLOTS;
  }

  hold(id: string): void {
    Atomics.add(this.#counts, this.row * SLOTS + slotOf(id), 1);
  }

  release(id: string): void {
    Atomics.sub(this.#counts, this.row * SLOTS + slotOf(id), 1);
  }

  has(id: string): boolean {
    const slot = slotOf(id);
    for (let row = 0; row < this.#rows; row++) if (Atomics.load(this.#counts, row * SLOTS + slot) > 0) return true;
    return false;
  }

  /** Clears the holds of a thread that has exited. */
  clear(row: number): void {
    for (let at = row * SLOTS; at < (row + 1) * SLOTS; at++) Atomics.store(this.#counts, at, 0);
  }
}

/** The end of an ID is random, so it can serve as a hash. */
function slotOf(id: string): number {
  let hash = 0;
  for (let at = Math.max(0, id.length - 8); at < id.length; at++) hash = (Math.imul(hash, 31) + id.charCodeAt(at)) | 0;
  return (hash >>> 0) % SLOTS;
}
