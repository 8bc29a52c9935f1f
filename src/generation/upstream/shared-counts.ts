// What all answering threads know of servers elsewhere together: how much each has to do, whether it is to be asked, what
// it has said of itself. A row of a buffer that all threads have for each server, changed with Atomics only. What a thread has
// under way it notes in rows of its own, so that it can be given back if the thread ends. Behind the rows lie the places of
// each model (shared-places.ts).
//
//   row           int32  0  under way
//                        1  failures in a row       2  times in a row that it was shut
//                        3  1: one request tries whether it answers again
//                        4  tokens of its context; 0: not known
//                        5  whose request it failed on last, though it answered; 0: nobody's
//                 int64  3  until when it is shut, in milliseconds of now(); 0: it is not
//                        4  since when it has only failed; 0: it has not
//   thread's row  int32  0  under way               1  of these, trying
import { placesBytes, SharedPlaces } from './shared-places.js';

const INTS = 10;
const WORDS = 5;
const UNDER_WAY = 0,
  FAILURES = 1,
  TIMES_SHUT = 2,
  TRYING = 3,
  CONTEXT = 4,
  FAILED_ON = 5;
const SHUT_UNTIL = 3,
  FAILING_SINCE = 4;
const OWN_INTS = 2;

/** A server that has answered nobody well for so long is at fault itself, whosever requests it fails on. */
export const FAILING_MS = 60_000;

/** Milliseconds by a clock that all threads share and nobody sets. */
export const sharedNow = (): number => Number(process.hrtime.bigint() / 1_000_000n);

/** How many there are at most. Threads are 0 to `threads`. */
export interface SharedShape {
  readonly models: number;
  readonly servers: number;
  readonly threads: number;
}

const rowsBytes = ({ servers, threads }: SharedShape): number => servers * (INTS + (threads + 1) * OWN_INTS) * 4;

/** Memory for all of them, and for what each thread has of them. */
export const upstreamBytes = (shape: SharedShape): number =>
  rowsBytes(shape) + placesBytes(shape.models, shape.threads);

export class SharedCounts {
  #row = 0;
  #model = 0;

  /** `thread`: whose these are; 0 where there is one. All threads take the same rows and places in the same order. */
  constructor(
    private readonly buffer: SharedArrayBuffer,
    private readonly shape: SharedShape,
    private readonly thread: number,
  ) {}

  /** Of the next server. */
  row(): SharedRow {
    if (this.#row >= this.shape.servers) throw new RangeError(`more than ${this.shape.servers} servers elsewhere`);
    return this.#rowAt(this.#row++, this.thread);
  }

  /** Of the next model: at most so many at once. */
  places(most: number): SharedPlaces {
    if (this.#model >= this.shape.models) throw new RangeError(`more than ${this.shape.models} models elsewhere`);
    return this.#placesAt(this.#model++, this.thread, most);
  }

  /** Gives back what a thread that has ended had under way. */
  leaveAll(thread: number): void {
    for (let row = 0; row < this.shape.servers; row++) this.#rowAt(row, thread).abandon();
    for (let model = 0; model < this.shape.models; model++) this.#placesAt(model, thread, 0).abandon();
  }

  #rowAt(row: number, thread: number): SharedRow {
    const { servers } = this.shape;
    return new SharedRow(
      this.buffer,
      row,
      new Int32Array(this.buffer, servers * (INTS + thread * OWN_INTS) * 4, servers * OWN_INTS),
    );
  }

  #placesAt(model: number, thread: number, most: number): SharedPlaces {
    return new SharedPlaces(this.buffer, rowsBytes(this.shape), model, this.shape.threads, thread, most);
  }
}

export class SharedRow {
  readonly #ints: Int32Array;
  readonly #words: BigInt64Array;
  readonly #own: Int32Array;

  constructor(buffer: SharedArrayBuffer, row: number, own: Int32Array) {
    this.#ints = new Int32Array(buffer, row * INTS * 4, INTS);
    this.#words = new BigInt64Array(buffer, row * INTS * 4, WORDS);
    this.#own = own.subarray(row * OWN_INTS, (row + 1) * OWN_INTS);
  }

  get underWay(): number {
    return Math.max(0, Atomics.load(this.#ints, UNDER_WAY));
  }

  enter(): void {
    Atomics.add(this.#ints, UNDER_WAY, 1);
    Atomics.add(this.#own, 0, 1);
  }

  leave(): void {
    Atomics.sub(this.#own, 0, 1);
    Atomics.sub(this.#ints, UNDER_WAY, 1);
  }

  /** It is shut, from then on, by one who sees it: what was `before`. */
  shut(before: number, until: number): boolean {
    return (
      Atomics.compareExchange(this.#words, SHUT_UNTIL, BigInt(before), BigInt(Math.ceil(until))) === BigInt(before)
    );
  }

  get shutUntil(): number {
    return Number(Atomics.load(this.#words, SHUT_UNTIL));
  }

  /** A failure more; how many there are in a row. */
  failed(): number {
    return Atomics.add(this.#ints, FAILURES, 1) + 1;
  }

  /**
   * Whether a failure at `now` counts: one on a request of an organization does not if the last that counted was on its own, for FAILING_MS; null: it is not
   * the request's.
   */
  failedFor(organization: number | null, now: number): boolean {
    const whose = organization === null ? 0 : (organization | 0) + 1;
    const since = Number(Atomics.compareExchange(this.#words, FAILING_SINCE, 0n, BigInt(now)));
    return (
      Atomics.exchange(this.#ints, FAILED_ON, whose) !== whose ||
      whose === 0 ||
      (since !== 0 && now - since >= FAILING_MS)
    );
  }

  /** Shut once more; how often in a row before. */
  shutAgain(): number {
    return Atomics.add(this.#ints, TIMES_SHUT, 1);
  }

  /** It answers. True if it was shut. */
  answered(): boolean {
    Atomics.store(this.#ints, FAILURES, 0);
    Atomics.store(this.#ints, FAILED_ON, 0);
    Atomics.store(this.#ints, TIMES_SHUT, 0);
    Atomics.store(this.#words, FAILING_SINCE, 0n);
    return Atomics.exchange(this.#words, SHUT_UNTIL, 0n) !== 0n;
  }

  get trying(): boolean {
    return Atomics.load(this.#ints, TRYING) !== 0;
  }

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
  get context(): number {
    return Atomics.load(this.#ints, CONTEXT);
  }
  set context(tokens: number) {
    Atomics.store(this.#ints, CONTEXT, Math.min(tokens, 2 ** 31 - 1));
  }

  /** Gives back what its thread had. */
  abandon(): void {
    Atomics.sub(this.#ints, UNDER_WAY, Atomics.exchange(this.#own, 0, 0));
    this.tried();
  }
}
