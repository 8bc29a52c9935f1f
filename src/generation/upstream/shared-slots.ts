// The concurrency slots of an upstream model, and the order in which they are assigned when all are in use: one count
// and one queue for all HTTP workers. The organization with the fewest running requests across all threads comes first;
// among equals, the one that has waited longest since its last slot. Each thread publishes its first waiting request,
// and takes a slot only if no other thread has a request with precedence. Changed only with Atomics. A thread's data is
// written only by that thread, and is released if the thread terminates.
//
//   head    int32  0  change counter: a thread that yields to others looks again when it changes
//                  1  running requests            2  threads with waiting requests
//   turns   int64     time of an organization's last slot (by its index), in microseconds of turnNow()
//   thread  int64     first waiting request: its time, and the organization's index + 1 in the lowest bits; 0: none
//           int32     for each index: running requests
import type { SlotPool } from '../fair-slots.js';

/**
 * Number of organizations that can be distinguished. If there are more, several share an index and are treated as a
 * single organization.
 */
const SLOTS = 1_024;
const SLOT_BITS = 11n;
const SLOT_MASK = (1n << SLOT_BITS) - 1n;
const HEAD_INTS = 4;
const CHANGES = 0,
  UNDER_WAY = 1,
  WAITERS = 2;
const MODEL_BYTES = HEAD_INTS * 4 + SLOTS * 8;
const THREAD_BYTES = 8 + SLOTS * 4;
/** Maximum delay until this thread notices a slot freed by another thread. */
const LOOK_MS = 1_000;
/** How long a thread with precedence may take to claim a slot. It may be busy with other work. */
const PATIENCE_MS = 100;

/** Declared here, because the type declarations used to compile this file do not include Atomics.waitAsync. */
const waitAsync = (
  Atomics as unknown as {
    waitAsync(
      ints: Int32Array,
      at: number,
      value: number,
      ms: number,
    ): { async: false } | { async: true; value: Promise<string> };
  }
).waitAsync;

/** Microseconds of a monotonic clock shared by all threads. */
const turnNow = (): number => Number(process.hrtime.bigint() / 1_000n);

/** Bytes for `models` models and threads 0 to `threads`. */
export const placesBytes = (models: number, threads: number): number =>
  models * (MODEL_BYTES + (threads + 1) * THREAD_BYTES);

interface Thread {
  readonly waits: BigInt64Array;
  readonly atWork: Int32Array;
}

export class SharedSlotPool implements SlotPool<number> {
  readonly #head: Int32Array;
  readonly #turns: BigInt64Array;
  readonly #threads: readonly Thread[];
  readonly #own: Thread;
  #published = 0n; // this thread's first waiting request, as published
  #seen = 0; // the change counter at the last look
  #lets = 0; // since when this thread has been yielding although a slot is free; 0: it is not yielding
  // for each thread: the published request that did not claim a slot in time; other requests no longer wait for it
  readonly #passed: bigint[];

  /**
   * The slots of model number `model` for `thread`, at most `most` across all threads. `at`: offset of the first
   * model's slots in the buffer.
   */
  constructor(
    { buffer, at, model, threads }: { buffer: SharedArrayBuffer; at: number; model: number; threads: number },
    private readonly thread: number,
    private readonly most: number,
  ) {
    const begin = at + model * (MODEL_BYTES + (threads + 1) * THREAD_BYTES);
    this.#head = new Int32Array(buffer, begin, HEAD_INTS);
    this.#turns = new BigInt64Array(buffer, begin + HEAD_INTS * 4, SLOTS);
    this.#threads = Array.from({ length: threads + 1 }, (_, index) => {
      const own = begin + MODEL_BYTES + index * THREAD_BYTES;
      return { waits: new BigInt64Array(buffer, own, 1), atWork: new Int32Array(buffer, own + 8, SLOTS) };
    });
    this.#own = this.#threads[thread] as Thread;
    this.#passed = this.#threads.map(() => 0n);
  }

  now(): number {
    return turnNow();
  }

  atWork(organization: number): number {
    return this.#atWork(slotOf(organization));
  }

  lastTurn(organization: number): number {
    return Number(Atomics.load(this.#turns, slotOf(organization)));
  }

  take(organization: number, since: number | null): boolean {
    const slot = slotOf(organization);
    if (since === null) {
      if (Atomics.load(this.#head, WAITERS) > 0 || !this.#register(slot)) return false;
      return true;
    }
    this.#publish((BigInt(since) << SLOT_BITS) | BigInt(slot + 1));
    this.#seen = Atomics.load(this.#head, CHANGES);
    if (Atomics.load(this.#head, UNDER_WAY) >= this.most) {
      this.#lets = 0;
      return false;
    }
    const others = this.#othersFirst(this.#atWork(slot), Math.max(since, this.lastTurn(organization)));
    if (others.length > 0) {
      const now = turnNow();
      if (this.#lets === 0) this.#lets = now;
      if (now - this.#lets < PATIENCE_MS * 1_000) return false;
      for (const { thread, firstWaiting } of others) this.#passed[thread] = firstWaiting;
    }
    if (!this.#register(slot)) return false;
    this.#lets = 0;
    Atomics.store(this.#turns, slot, BigInt(turnNow()));
    return true;
  }

  release(organization: number): void {
    Atomics.sub(this.#own.atWork, slotOf(organization), 1);
    Atomics.sub(this.#head, UNDER_WAY, 1);
    this.#changed();
  }

  nobodyWaits(): void {
    this.#lets = 0;
    this.#publish(0n);
  }

  whenFree(notify: () => void): void {
    const waiting = waitAsync(this.#head, CHANGES, this.#seen, this.#lets === 0 ? LOOK_MS : PATIENCE_MS);
    if (waiting.async) void waiting.value.then(notify);
    else setImmediate(notify);
  }

  /** Releases everything held by its thread. */
  abandon(): void {
    let count = 0;
    for (let slot = 0; slot < SLOTS; slot++) count += Atomics.exchange(this.#own.atWork, slot, 0);
    Atomics.sub(this.#head, UNDER_WAY, count);
    this.#published = Atomics.load(this.#own.waits, 0);
    this.#publish(0n);
    this.#changed();
  }

  #atWork(slot: number): number {
    let sum = 0;
    for (const { atWork } of this.#threads) sum += Atomics.load(atWork, slot);
    return sum;
  }

  #register(slot: number): boolean {
    for (;;) {
      const before = Atomics.load(this.#head, UNDER_WAY);
      if (before >= this.most) return false;
      if (Atomics.compareExchange(this.#head, UNDER_WAY, before, before + 1) !== before) continue;
      Atomics.add(this.#own.atWork, slot, 1);
      return true;
    }
  }

  /**
   * Returns the waiting requests of other threads that take precedence over a request whose organization has `atWork`
   * running requests and got its last slot at `turn`.
   */
  #othersFirst(atWork: number, turn: number): { thread: number; firstWaiting: bigint }[] {
    const others: { thread: number; firstWaiting: bigint }[] = [];
    for (const [thread, { waits }] of this.#threads.entries()) {
      const firstWaiting = thread === this.thread ? 0n : Atomics.load(waits, 0);
      if (firstWaiting === 0n || firstWaiting === this.#passed[thread]) continue;
      const slot = Number(firstWaiting & SLOT_MASK) - 1;
      const theirs = this.#atWork(slot);
      const theirTurn = Math.max(Number(firstWaiting >> SLOT_BITS), Number(Atomics.load(this.#turns, slot)));
      if (theirs < atWork || (theirs === atWork && (theirTurn < turn || (theirTurn === turn && thread < this.thread))))
        others.push({ thread, firstWaiting });
    }
    return others;
  }

  #publish(first: bigint): void {
    const before = this.#published;
    if (before === first) return;
    this.#published = first;
    Atomics.store(this.#own.waits, 0, first);
    if (before === 0n) Atomics.add(this.#head, WAITERS, 1);
    else if (first === 0n) Atomics.sub(this.#head, WAITERS, 1);
    this.#changed();
  }

  #changed(): void {
    Atomics.add(this.#head, CHANGES, 1);
    Atomics.notify(this.#head, CHANGES);
  }
}

const slotOf = (organization: number): number => organization % SLOTS;
