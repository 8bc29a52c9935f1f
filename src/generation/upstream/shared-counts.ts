// The state of upstream servers shared by all HTTP workers: load, availability and reported values. Each server has a
// row in a shared buffer, which is changed only with Atomics. Each thread also records its running requests in its own
// rows, so that they can be released if the thread terminates. The concurrency slots of each model follow
// (shared-slots.ts).
//
//   row           int32  0  running requests
//                        1  consecutive failures   2  consecutive times out of rotation
//                        3  1: one request is testing whether the server works again
//                        4  tokens of its context; 0: not known
//                        5  organization whose request it last failed on although it responded; 0: none
//                 int64  3  end of its time out of rotation, in milliseconds of sharedNow(); 0: in rotation
//                        4  time since which it has only failed; 0: it has not
//   thread's row  int32  0  running requests       1  of these, test requests
import { placesBytes, SharedSlotPool } from './shared-slots.js';

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

/**
 * If all requests to a server have failed for this long, the failures count against it, regardless of which
 * organizations sent the requests.
 */
export const FAILING_MS = 60_000;

/** Milliseconds of a monotonic clock shared by all threads. */
export const sharedNow = (): number => Number(process.hrtime.bigint() / 1_000_000n);

/** Maximum number of models, servers and threads. Threads are numbered from 0 to `threads`. */
export interface SharedShape {
  readonly models: number;
  readonly servers: number;
  readonly threads: number;
}

const rowsBytes = ({ servers, threads }: SharedShape): number => servers * (INTS + (threads + 1) * OWN_INTS) * 4;

/** Bytes for all rows, including each thread's own. */
export const upstreamBytes = (shape: SharedShape): number =>
  rowsBytes(shape) + placesBytes(shape.models, shape.threads);

export class SharedCounts {
  #row = 0;
  #model = 0;

  /**
   * `thread`: this thread's number; 0 if there is only one thread. All threads must request the same rows and slots in
   * the same order.
   */
  constructor(
    private readonly buffer: SharedArrayBuffer,
    private readonly shape: SharedShape,
    private readonly thread: number,
  ) {}

  /** Returns the next server's row. */
  row(): SharedRow {
    if (this.#row >= this.shape.servers) throw new RangeError(`more than ${this.shape.servers} upstream servers`);
    return this.#rowAt(this.#row++, this.thread);
  }

  /** Returns the next model's concurrency slots. `most`: maximum number of slots. */
  places(most: number): SharedSlotPool {
    if (this.#model >= this.shape.models) throw new RangeError(`more than ${this.shape.models} upstream models`);
    return this.#placesAt(this.#model++, this.thread, most);
  }

  /** Releases the running requests of a thread that has terminated. */
  releaseAll(thread: number): void {
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

  #placesAt(model: number, thread: number, most: number): SharedSlotPool {
    const { buffer, shape } = this;
    return new SharedSlotPool({ buffer, at: rowsBytes(shape), model, threads: shape.threads }, thread, most);
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

  /** Takes the server out of rotation. Returns true only on the thread that changes the value from `before`. */
  shut(before: number, until: number): boolean {
    return (
      Atomics.compareExchange(this.#words, SHUT_UNTIL, BigInt(before), BigInt(Math.ceil(until))) === BigInt(before)
    );
  }

  get shutUntil(): number {
    return Number(Atomics.load(this.#words, SHUT_UNTIL));
  }

  /** Counts a failure. Returns the number of consecutive failures. */
  failed(): number {
    return Atomics.add(this.#ints, FAILURES, 1) + 1;
  }

  /**
   * Whether a failure at `now` counts. If this failure and the previous one occurred on requests of the same
   * organization, it counts only after all requests to the server have failed for FAILING_MS. `organization`: null if
   * the request was not the cause.
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

  /** Counts another time out of rotation. Returns the previous number of consecutive times. */
  shutAgain(): number {
    return Atomics.add(this.#ints, TIMES_SHUT, 1);
  }

  /** Records a success. Returns true if the server was out of rotation. */
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

  /** Starts a test request unless another one is running. Returns whether it was started. */
  tryIt(): boolean {
    if (Atomics.compareExchange(this.#ints, TRYING, 0, 1) !== 0) return false;
    Atomics.store(this.#own, 1, 1);
    return true;
  }

  tried(): void {
    if (Atomics.exchange(this.#own, 1, 0) === 1) Atomics.store(this.#ints, TRYING, 0);
  }

  /** The reported context size in tokens; 0 = not reported. */
  get context(): number {
    return Atomics.load(this.#ints, CONTEXT);
  }
  set context(tokens: number) {
    Atomics.store(this.#ints, CONTEXT, Math.min(tokens, 2 ** 31 - 1));
  }

  /** Releases everything held by its thread. */
  abandon(): void {
    Atomics.sub(this.#ints, UNDER_WAY, Atomics.exchange(this.#own, 0, 0));
    this.tried();
  }
}
