// The one clock of a simulated service, in the place of the process's own: Date.now(), performance.now(), process.hrtime,
// timers, immediates, and the randomness that ids are made of. What runs under it is the code as it is released, without
// seams of its own. What becomes due runs in the order of its time, then of its making; between two of them every promise
// that can go on has gone on. Monotonic and wall clock are two: the wall clock may leap.
//
// Owner of a callback is the simulated thread that asked for it; one of a thread that has ended never runs.
import crypto from 'node:crypto';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { performance } from 'node:perf_hooks';

/** A simulated thread, as far as time is concerned. */
export interface Owner {
  alive: boolean;
}

interface Due {
  readonly at: number;
  readonly order: number;
  readonly owner: Owner;
  readonly run: () => unknown;
  cancelled: boolean;
}

const real = { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate };
const NOBODY: Owner = { alive: true };

/** What setTimeout() and the like return. */
class Handle {
  due: Due | null = null;
  unref(): this {
    return this;
  }
  ref(): this {
    return this;
  }
  hasRef(): boolean {
    return true;
  }
  [Symbol.dispose](): void {
    if (this.due !== null) this.due.cancelled = true;
  }
}

export class SimTime {
  /** Whoever runs now. */
  owner: Owner = NOBODY;
  #now = 0; // microseconds
  #wallAhead = 0; // of it, milliseconds since 1970
  #order = 0;
  #heap: Due[] = [];
  #isReal = 0; // something waits for the machine itself

  /** Microseconds. */
  get now(): number {
    return this.#now;
  }
  /** Milliseconds since 1970. */
  get wall(): number {
    return Math.floor(this.#wallAhead + this.#now / 1000);
  }

  /** Begins anew, with nothing due. */
  begin(wall: number): void {
    this.#now = 1_000_000;
    this.#wallAhead = wall;
    this.#order = 0;
    this.#heap = [];
    this.owner = NOBODY;
  }

  leapWall(ms: number): void {
    this.#wallAhead += ms;
  }

  /** `run` may return a promise that the machine itself resolves: nothing else is due before. */
  at(us: number, owner: Owner, run: () => unknown): Due {
    const due: Due = { at: Math.max(us, this.#now), order: this.#order++, owner, run, cancelled: false };
    push(this.#heap, due);
    return due;
  }

  /** Everything that is due within so many microseconds; then it is that much later. */
  async pass(us: number): Promise<void> {
    const until = this.#now + us;
    await this.settle();
    for (let next = this.#heap[0]; next !== undefined && next.at <= until; next = this.#heap[0]) {
      pop(this.#heap);
      if (next.cancelled || !next.owner.alive) continue;
      this.#now = Math.max(this.#now, next.at);
      this.owner = next.owner;
      await next.run();
      await this.settle();
    }
    this.#now = until;
    this.owner = NOBODY;
  }

  /** Runs as `owner` until nothing more can be done without time. */
  async as<T>(owner: Owner, work: () => T | Promise<T>): Promise<T> {
    this.owner = owner;
    const result = await work();
    await this.settle();
    this.owner = NOBODY;
    return result;
  }

  /** Until every promise that can go on has gone on. */
  settle(): Promise<void> {
    return new Promise((resolve) => {
      real.setImmediate(resolve);
    });
  }

  /** What `work` waits for is the machine's. */
  async really<T>(work: () => Promise<T>): Promise<T> {
    this.#isReal++;
    try {
      return await work();
    } finally {
      this.#isReal--;
    }
  }

  /** For the rest of this process. `fill` makes its random bytes. */
  install(fill: (bytes: Uint8Array) => void): void {
    const timer =
      (every: boolean) =>
      (run: (...values: unknown[]) => unknown, ms = 0, ...values: unknown[]): unknown => {
        if (this.#isReal > 0)
          return (every ? real.setInterval : real.setTimeout)(run as () => void, ms, ...(values as []));
        const handle = new Handle();
        const { owner } = this;
        const us = Math.max(1_000, ms * 1000);
        const arm = (): void => {
          handle.due = this.at(this.#now + us, owner, () => {
            if (every) arm();
            run(...values);
          });
        };
        arm();
        return handle;
      };
    const immediate = (run: (...values: unknown[]) => unknown, ...values: unknown[]): unknown => {
      if (this.#isReal > 0) return real.setImmediate(run as () => void, ...(values as []));
      const handle = new Handle();
      handle.due = this.at(this.#now, this.owner, () => {
        run(...values);
      });
      return handle;
    };
    const clear =
      (otherwise: (handle: never) => void) =>
      (handle: unknown): void => {
        if (!(handle instanceof Handle)) otherwise(handle as never);
        else if (handle.due !== null) handle.due.cancelled = true;
      };
    Object.assign(globalThis, {
      setTimeout: timer(false),
      setInterval: timer(true),
      setImmediate: immediate,
      clearTimeout: clear(real.clearTimeout),
      clearInterval: clear(real.clearInterval),
      clearImmediate: clear(real.clearImmediate),
    });
    Date.now = () => this.wall;
    Object.defineProperty(performance, 'now', { value: () => this.#now / 1000 });
    Object.defineProperty(performance, 'timeOrigin', { get: () => this.#wallAhead });
    process.hrtime.bigint = () => BigInt(Math.round(this.#now)) * 1000n;
    const promises = createRequire(import.meta.url)('node:timers/promises') as Record<string, unknown>;
    promises['setTimeout'] = (ms: number, value: unknown) =>
      new Promise((resolve) => {
        setTimeout(resolve, ms, value);
      });
    promises['setImmediate'] = (value: unknown) =>
      new Promise((resolve) => {
        setImmediate(resolve, value);
      });
    Object.assign(crypto, {
      randomFillSync: <T extends Uint8Array>(bytes: T): T => {
        fill(bytes);
        return bytes;
      },
      randomBytes: (length: number): Buffer => {
        const bytes = Buffer.alloc(length);
        fill(bytes);
        return bytes;
      },
    });
    syncBuiltinESMExports();
  }
}

const before = (one: Due, other: Due): boolean => one.at < other.at || (one.at === other.at && one.order < other.order);

function push(heap: Due[], due: Due): void {
  let at = heap.push(due) - 1;
  while (at > 0) {
    const up = (at - 1) >> 1;
    if (!before(due, heap[up] as Due)) break;
    heap[at] = heap[up] as Due;
    at = up;
  }
  heap[at] = due;
}

function pop(heap: Due[]): void {
  const last = heap.pop() as Due;
  if (heap.length === 0) return;
  let at = 0;
  for (;;) {
    let down = 2 * at + 1;
    if (down >= heap.length) break;
    if (down + 1 < heap.length && before(heap[down + 1] as Due, heap[down] as Due)) down++;
    if (!before(heap[down] as Due, last)) break;
    heap[at] = heap[down] as Due;
    at = down;
  }
  heap[at] = last;
}
