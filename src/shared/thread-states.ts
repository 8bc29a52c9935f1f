// States of the HTTP workers, in memory shared by all threads, because each of them serves health checks. Written only
// by the main thread.

/** `starting`: starting or restarting. `lost`: failed too often to be restarted. */
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

  /** `index` starts at 1, like on the bus. */
  set(index: number, state: ThreadState): void {
    Atomics.store(this.#states, index - 1, STATES.indexOf(state));
  }

  list(): ThreadState[] {
    return Array.from(this.#states, (_, at) => STATES[Atomics.load(this.#states, at)] as ThreadState);
  }
}
