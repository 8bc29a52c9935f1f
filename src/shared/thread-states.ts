// What each answering thread is doing, in memory that all of them see: health is told by whichever is asked.
// Written by the main thread alone.

/** `starting`: not yet, or not again. `lost`: ended too often to be started again. */
export type ThreadState = 'starting' | 'serving' | 'lost';

const STATES: readonly ThreadState[] = ['starting', 'serving', 'lost'];

export class ThreadStates {
  readonly #states: Int32Array;

  static bytes(threads: number): number {
    return threads * Int32Array.BYTES_PER_ELEMENT;
  }

  constructor(buffer: SharedArrayBuffer) {
    this.#states = new Int32Array(buffer);
  }

  /** `index`: 1 and up, as of the bus. */
  set(index: number, state: ThreadState): void {
    Atomics.store(this.#states, index - 1, STATES.indexOf(state));
  }

  list(): ThreadState[] {
    return Array.from(this.#states, (_, at) => STATES[Atomics.load(this.#states, at)] as ThreadState);
  }
}
