// A lock-free hash table in shared memory, used for admission. Each key has a 64-byte record, which any number of
// threads can find and create concurrently using only Atomics.
//
//   record        int32  0…3   key, see record-key.ts; all 0: the slot is empty
//                        4     requests admitted and not finished; they pin the record. REPLACING: about to be
//                        reassigned
//                        5     mean duration of a request in milliseconds
//                 int64  3     rpm bucket, see counters.ts
//                        4     tpm bucket
//                        5     tokens of a month
//                 int32  12    the month, see month-use.ts
//
// Open addressing with a bounded probe: a key is stored in one of the WINDOW slots that start at its hash. Slots never
// become empty again, so all threads that look for a key see the same slots in the same order. Two threads that insert
// the same key compete for the same empty slot, and one compare-and-swap per word of the key decides which one wins.
//
// If a window has no empty slot, a record that is indistinguishable from a new one is reassigned. That is rare and is
// done by one thread at a time, under a lock word that contains its own expiry time, so a thread that dies while
// holding it blocks the others only until then. Threads that find the lock taken retry. Lookups of existing keys never
// wait for it.

const INTS = 16;
const WORDS = 8;
const HEADER_BYTES = 64;
const WINDOW = 32;
const COUNT = 4;
const MEAN_MS = 5;
const MONTH = 12;
const REPLACING = -1;
const REPLACE_NS = 1_000_000_000n;
/**
 * Number of attempts on a window that other threads are changing before the window counts as full. All attempts
 * together take a few milliseconds.
 */
const TRIES = 20_000;

/** Size in bytes of a table with `records` records. */
export const tableBytes = (records: number): number => HEADER_BYTES + records * INTS * 4;

/** A record's 64-bit words. */
export type Word = 'rpm' | 'tpm' | 'tokens';
const WORD: Readonly<Record<Word, number>> = { rpm: 3, tpm: 4, tokens: 5 };

/** Returned if no slot is currently free for another record. */
export const FULL = -1;
/** The count would exceed its limit. */
export const OVER = -2;

export interface TableOptions {
  /** Monotonic nanoseconds; the same clock on all threads of the process. */
  now: () => bigint;
  /** Returns the number of the current month (see month-use.ts). Records of the current month are not reassigned. */
  month: () => number;
  /** The ledger of this thread's open counts: one word per record, written only by this thread. */
  ledger?: Int32Array | undefined;
}

export class RecordTable {
  readonly capacity: number;
  private readonly ints: Int32Array;
  private readonly words: BigInt64Array;
  private readonly replacing: BigInt64Array;

  /** `buffer` is shared by all threads and must initially be zeroed. */
  constructor(
    buffer: SharedArrayBuffer,
    private readonly options: TableOptions,
  ) {
    this.capacity = Math.floor((buffer.byteLength - HEADER_BYTES) / (INTS * 4));
    this.ints = new Int32Array(buffer, HEADER_BYTES);
    this.words = new BigInt64Array(buffer, HEADER_BYTES);
    this.replacing = new BigInt64Array(buffer, 0, 1);
  }

  /** Returns a key's record, or FULL if there is none. The record is not pinned, so it may only be read. */
  find(key: Int32Array): number {
    const first = this.home(key);
    for (let step = 0; step < Math.min(WINDOW, this.capacity); step++) {
      const record = (first + step) % this.capacity;
      if (this.holds(record, key)) return record;
      if (Atomics.load(this.ints, record * INTS) === 0) return FULL;
    }
    return FULL;
  }

  /**
   * Adds `count` (at least 1) to a key's record, creating it if needed, unless that would exceed `limit`. The record
   * stays pinned to the key until leave(). FULL or OVER means that nothing was added.
   */
  enter(key: Int32Array, count: number, limit: number | null): number {
    for (let tries = 0; tries < TRIES; tries++) {
      const record = this.claim(key);
      if (record === FULL) return FULL;
      if (record < 0) continue;
      const at = record * INTS + COUNT;
      for (;;) {
        const before = Atomics.load(this.ints, at);
        if (before < 0) break;
        if (limit !== null && before + count > limit) {
          if (this.holds(record, key)) return OVER;
          break;
        }
        if (Atomics.compareExchange(this.ints, at, before, before + count) !== before) continue;
        if (this.holds(record, key)) {
          this.note(record, count);
          return record;
        }
        Atomics.sub(this.ints, at, count); // it was reassigned after claim()
        break;
      }
    }
    return FULL;
  }

  leave(record: number, count: number): void {
    this.note(record, -count);
    Atomics.sub(this.ints, record * INTS + COUNT, count);
  }

  /** Subtracts the open counts of a thread that has terminated. */
  leaveAll(ledger: Int32Array): void {
    for (let record = 0; record < this.capacity; record++) {
      const count = Atomics.exchange(ledger, record, 0);
      if (count > 0) Atomics.sub(this.ints, record * INTS + COUNT, count);
    }
  }

  count(record: number): number {
    return Math.max(0, Atomics.load(this.ints, record * INTS + COUNT));
  }

  /** Mean duration of recent requests, or 0 if no request has finished. */
  meanMs(record: number): number {
    return Atomics.load(this.ints, record * INTS + MEAN_MS);
  }

  /** Adds a request's duration to the mean. If two calls run concurrently, one of the durations can be lost. */
  took(record: number, ms: number): void {
    const mean = this.meanMs(record);
    const took = Math.min(3_600_000, Math.max(1, Math.round(ms)));
    Atomics.store(this.ints, record * INTS + MEAN_MS, mean === 0 ? took : Math.round(mean + (took - mean) / 8));
  }

  month(record: number): number {
    return Atomics.load(this.ints, record * INTS + MONTH);
  }

  /** Changes the month from `before` to `after`. Returns false if it was not `before`. */
  turnMonth(record: number, before: number, after: number): boolean {
    return Atomics.compareExchange(this.ints, record * INTS + MONTH, before, after) === before;
  }

  load(record: number, word: Word): bigint {
    return Atomics.load(this.words, record * WORDS + WORD[word]);
  }

  store(record: number, word: Word, value: bigint): void {
    Atomics.store(this.words, record * WORDS + WORD[word], value);
  }

  add(record: number, word: Word, value: bigint): void {
    Atomics.add(this.words, record * WORDS + WORD[word], value);
  }

  /** Changes the word from `before` to `after`. Returns false if it was not `before`. */
  change(record: number, word: Word, before: bigint, after: bigint): boolean {
    return Atomics.compareExchange(this.words, record * WORDS + WORD[word], before, after) === before;
  }

  /** Sum of all records' counts, that is, the total number of unfinished requests. Walks the whole table. */
  unfinished(): number {
    let sum = 0;
    for (let record = 0; record < this.capacity; record++) sum += this.count(record);
    return sum;
  }

  /**
   * Visits every record with a bucket that is not full at `now`. The visitor receives the key and the time in ns until
   * each bucket is full. Walks the whole table.
   */
  forEachAhead(now: bigint, visit: (key: Int32Array, rpm: bigint, tpm: bigint) => void): void {
    for (let record = 0; record < this.capacity; record++) {
      const at = record * INTS;
      if (Atomics.load(this.ints, at) === 0) continue;
      const rpm = this.load(record, 'rpm') - now;
      const tpm = this.load(record, 'tpm') - now;
      if (rpm > 0n || tpm > 0n) visit(this.ints.slice(at, at + 4), rpm > 0n ? rpm : 0n, tpm > 0n ? tpm : 0n);
    }
  }

  private note(record: number, count: number): void {
    const { ledger } = this.options;
    if (ledger !== undefined) Atomics.add(ledger, record, count);
  }

  private home(key: Int32Array): number {
    return ((key[0] as number) >>> 0) % this.capacity;
  }

  private holds(record: number, key: Int32Array): boolean {
    const at = record * INTS;
    return (
      Atomics.load(this.ints, at) === key[0] &&
      Atomics.load(this.ints, at + 1) === key[1] &&
      Atomics.load(this.ints, at + 2) === key[2] &&
      Atomics.load(this.ints, at + 3) === key[3]
    );
  }

  /**
   * Returns the key's record, creating it if needed. FULL: all slots in its window are in use. OVER: another thread is
   * changing the window, so retry.
   */
  private claim(key: Int32Array): number {
    const first = this.home(key);
    for (let step = 0; step < Math.min(WINDOW, this.capacity); step++) {
      const record = (first + step) % this.capacity;
      if (this.takes(record, key)) return record;
    }
    return this.replace(key, first);
  }

  /**
   * Whether the slot contains the key, or was empty and now contains it. The slot is claimed word by word; a key that
   * loses a word to another key moves on to the next slot.
   */
  private takes(record: number, key: Int32Array): boolean {
    const at = record * INTS;
    for (let word = 0; word < 4; word++) {
      const mine = key[word] as number;
      const before = Atomics.load(this.ints, at + word);
      if (before === mine) continue;
      if (before !== 0) return false;
      const found = Atomics.compareExchange(this.ints, at + word, 0, mine);
      if (found !== 0 && found !== mine) return false;
    }
    return true;
  }

  private replace(key: Int32Array, first: number): number {
    const now = this.options.now();
    const until = Atomics.load(this.replacing, 0);
    if (until > now || Atomics.compareExchange(this.replacing, 0, until, now + REPLACE_NS) !== until) return OVER;
    try {
      const made = this.find(key); // the previous lock holder inserted it
      if (made !== FULL) return made;
      for (let step = 0; step < Math.min(WINDOW, this.capacity); step++) {
        const record = (first + step) % this.capacity;
        const at = record * INTS;
        if (Atomics.compareExchange(this.ints, at + COUNT, 0, REPLACING) !== 0) continue;
        if (this.isFresh(record, now)) {
          for (let word = 0; word < 4; word++) Atomics.store(this.ints, at + word, key[word] as number);
          for (const word of ['rpm', 'tpm', 'tokens'] as const) this.store(record, word, 0n);
          Atomics.store(this.ints, at + MEAN_MS, 0);
          Atomics.store(this.ints, at + MONTH, 0);
          Atomics.store(this.ints, at + COUNT, 0);
          return record;
        }
        Atomics.store(this.ints, at + COUNT, 0);
      }
      return FULL;
    } finally {
      Atomics.store(this.replacing, 0, 0n);
    }
  }

  /** A record without unfinished requests and with full buckets is equivalent to a new one. */
  private isFresh(record: number, now: bigint): boolean {
    return (
      this.load(record, 'rpm') <= now && this.load(record, 'tpm') <= now && this.month(record) !== this.options.month()
    );
  }
}
