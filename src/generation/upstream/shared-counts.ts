// What all answering threads know of servers elsewhere together: how much each has to do, whether it is to be asked, what
// it has said of itself. Rows of a buffer that all threads have, changed with Atomics only; a model has one, and each of its
// servers. What a thread has under way it notes in rows of its own, so that it can be given back if the thread ends.
//
//   row           int32  0  under way
//                        1  failures in a row       2  times in a row that it was shut
//                        3  1: one request tries whether it answers again
//                        4  tokens of its context; 0: not known
//                 int64  3  until when it is shut, in milliseconds of now(); 0: it is not
//   thread's row  int32  0  under way               1  of these, trying
import type { Places } from '../fair-slots.js';

const INTS = 8;
const WORDS = 4;
const UNDER_WAY = 0, FAILURES = 1, TIMES_SHUT = 2, TRYING = 3, CONTEXT = 4;
const SHUT_UNTIL = 3;
const OWN_INTS = 2;
/** A place that another thread has freed is looked for again after so long at the latest. */
const LOOK_MS = 1_000;

/** Newer than the declarations this is compiled with. */
const waitAsync = (Atomics as unknown as {
  waitAsync(ints: Int32Array, at: number, value: number, ms: number): { async: false } | { async: true; value: Promise<string> };
}).waitAsync;

/** Milliseconds by a clock that all threads share and nobody sets. */
export const sharedNow = (): number => Number(process.hrtime.bigint() / 1_000_000n);

/** Memory for `rows`, and for what each of threads 0 to `threads` has of them. */
export const upstreamBytes = (rows: number, threads: number): number => rows * INTS * 4 + (threads + 1) * rows * OWN_INTS * 4;

export class SharedCounts {
  readonly #rows: number;
  #next = 0;

  /** `thread`: whose these are; 0 where there is one. All threads take the same rows in the same order. */
  constructor(private readonly buffer: SharedArrayBuffer, threads: number, private readonly thread: number) {
    this.#rows = buffer.byteLength / (INTS * 4 + (threads + 1) * OWN_INTS * 4);
  }

  /** The next row. */
  row(): SharedRow {
    if (this.#next >= this.#rows) throw new RangeError(`more than ${this.#rows} rows of servers elsewhere`);
    return new SharedRow(this.buffer, this.#next++, this.#own(this.thread));
  }

  /** Gives back what a thread that has ended had under way. */
  leaveAll(thread: number): void {
    for (let row = 0; row < this.#rows; row++) new SharedRow(this.buffer, row, this.#own(thread)).abandon();
  }

  #own(thread: number): Int32Array {
    return new Int32Array(this.buffer, this.#rows * (INTS + thread * OWN_INTS) * 4, this.#rows * OWN_INTS);
  }
}

/** Room for one process without threads: tests, tools. */
export const ownCounts = (rows: number): SharedCounts => new SharedCounts(new SharedArrayBuffer(upstreamBytes(rows, 0)), 0, 0);

export class SharedRow {
  readonly #ints: Int32Array;
  readonly #words: BigInt64Array;
  readonly #own: Int32Array;

  constructor(buffer: SharedArrayBuffer, row: number, own: Int32Array) {
    this.#ints = new Int32Array(buffer, row * INTS * 4, INTS);
    this.#words = new BigInt64Array(buffer, row * INTS * 4, WORDS);
    this.#own = own.subarray(row * OWN_INTS, (row + 1) * OWN_INTS);
  }

  get underWay(): number { return Math.max(0, Atomics.load(this.#ints, UNDER_WAY)); }

  /** One more, unless there are `most`. */
  enter(most = Infinity): boolean {
    for (;;) {
      const before = Atomics.load(this.#ints, UNDER_WAY);
      if (before >= most) return false;
      if (Atomics.compareExchange(this.#ints, UNDER_WAY, before, before + 1) !== before) continue;
      Atomics.add(this.#own, 0, 1);
      return true;
    }
  }

  leave(): void {
    Atomics.sub(this.#own, 0, 1);
    Atomics.sub(this.#ints, UNDER_WAY, 1);
    Atomics.notify(this.#ints, UNDER_WAY);
  }

  /** Tells soon after there are fewer than `most`, whoever has left. */
  whenFewer(most: number, tell: () => void): void {
    const now = Atomics.load(this.#ints, UNDER_WAY);
    const waiting = now < most ? { async: false as const } : waitAsync(this.#ints, UNDER_WAY, now, LOOK_MS);
    if (waiting.async) void waiting.value.then(tell);
    else setImmediate(tell);
  }

  /** It is shut, from then on, by one who sees it: what was `before`. */
  shut(before: number, until: number): boolean {
    return Atomics.compareExchange(this.#words, SHUT_UNTIL, BigInt(before), BigInt(Math.ceil(until))) === BigInt(before);
  }

  get shutUntil(): number { return Number(Atomics.load(this.#words, SHUT_UNTIL)); }

  /** A failure more; how many there are in a row. */
  failed(): number { return Atomics.add(this.#ints, FAILURES, 1) + 1; }

  /** Shut once more; how often in a row before. */
  shutAgain(): number { return Atomics.add(this.#ints, TIMES_SHUT, 1); }

  /** It answers. True if it was shut. */
  answered(): boolean {
    Atomics.store(this.#ints, FAILURES, 0);
    Atomics.store(this.#ints, TIMES_SHUT, 0);
    return Atomics.exchange(this.#words, SHUT_UNTIL, 0n) !== 0n;
  }

  get trying(): boolean { return Atomics.load(this.#ints, TRYING) !== 0; }

  /** One at a time tries. */
  tryIt(): boolean {
    if (Atomics.compareExchange(this.#ints, TRYING, 0, 1) !== 0) return false;
    Atomics.store(this.#own, 1, 1);
    return true;
  }

  tried(): void {
    if (Atomics.exchange(this.#own, 1, 0) === 1) Atomics.store(this.#ints, TRYING, 0);
  }

  /** Tokens of its context, as it has said; 0: it has not. */
  get context(): number { return Atomics.load(this.#ints, CONTEXT); }
  set context(tokens: number) { Atomics.store(this.#ints, CONTEXT, Math.min(tokens, 2 ** 31 - 1)); }

  /** Gives back what its thread had. */
  abandon(): void {
    const count = Atomics.exchange(this.#own, 0, 0);
    this.tried();
    if (count <= 0) return;
    Atomics.sub(this.#ints, UNDER_WAY, count);
    Atomics.notify(this.#ints, UNDER_WAY);
  }
}

/** At most so many of a row at once, in all threads together. */
export class SharedPlaces implements Places {
  constructor(private readonly row: SharedRow, private readonly most: number) {}

  take(): boolean { return this.row.enter(this.most); }
  release(): void { this.row.leave(); }
  whenFree(tell: () => void): void { this.row.whenFewer(this.most, tell); }
}
