// A simulated service's only clock. It replaces the process's own Date.now(), performance.now(), process.hrtime, timers
// and immediates, and the random bytes from which ids are made. The code under test is the released code, without test
// hooks. Callbacks run in order of their due time, then of their creation; between two callbacks, all resolvable
// promises are settled. The monotonic clock and the wall clock are separate: the wall clock may jump.
//
// Each callback belongs to the simulated thread that scheduled it. Callbacks of a thread that has exited never run.
import crypto from 'node:crypto';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { performance } from 'node:perf_hooks';

/** The state of a simulated thread that the clock uses. */
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

/** The handle that setTimeout() and similar functions return. */
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
  /** The thread that is currently running. */
  owner: Owner = NOBODY;
  #now = 0; // Microseconds.
  #wallAhead = 0; // Wall clock minus monotonic clock, in milliseconds since 1970.
  #order = 0;
  #heap: Due[] = [];
  #isReal = 0; // Number of calls waiting for a real event on the machine.

  /** Monotonic time in microseconds. */
  get now(): number {
    return this.#now;
  }
  /** Wall-clock time in milliseconds since 1970. */
  get wall(): number {
    return Math.floor(this.#wallAhead + this.#now / 1000);
  }

  /** Resets the clock and discards all scheduled callbacks. */
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

  /**
   * Schedules a callback. `run` may return a promise that depends on real I/O; no other callback runs until it is
   * resolved.
   */
  at(us: number, owner: Owner, run: () => unknown): Due {
    const due: Due = { at: Math.max(us, this.#now), order: this.#order++, owner, run, cancelled: false };
    push(this.#heap, due);
    return due;
  }

  /** Runs all callbacks due within `us` microseconds, then advances the clock by that much. */
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

  /** Runs `work` as `owner` until nothing more can happen without advancing the clock. */
  async as<T>(owner: Owner, work: () => T | Promise<T>): Promise<T> {
    this.owner = owner;
    const result = await work();
    await this.settle();
    this.owner = NOBODY;
    return result;
  }

  /** Waits until all resolvable promises are settled. */
  settle(): Promise<void> {
    return new Promise((resolve) => {
      real.setImmediate(resolve);
    });
  }

  /** Runs `work` with the machine's real timers. */
  async really<T>(work: () => Promise<T>): Promise<T> {
    this.#isReal++;
    try {
      return await work();
    } finally {
      this.#isReal--;
    }
  }

  /** Installs the clock for the rest of this process. `fill` supplies the random bytes. */
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
