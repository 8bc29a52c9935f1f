// The shared memory behind admission: one record per (organization, model) in a SharedArrayBuffer, changed
// with Atomics only, so that any number of HTTP threads may count in it.
//
//   record of 4 × 64 bits
//     0  rpm bucket    theoretical arrival time, see below
//     1  tpm bucket    the same
//     2  concurrency   requests admitted and not finished
//     3  unused        (pads to 32 bytes)
//
// A token bucket is kept as one number instead of level and timestamp (generic cell rate algorithm): the
// time at which it would be full again, in nanoseconds. level = capacity − (full_at − now) · rate, and full
// when full_at ≤ now. Taking x tokens moves full_at by x / rate; giving back moves it the other way. One
// 64-bit compare-and-swap therefore updates level and refill together.

const WORDS = 4;
const RPM = 0;
const TPM = 1;
const CONCURRENCY = 2;

const NS_PER_MINUTE = 60_000_000_000n;

/** A limit and what the bucket holds now; null limits are off. */
export interface BucketState { limit: number; remaining: number; resetMs: number }

export interface Limits { rpm: number | null; tpm: number | null; concurrency: number | null }

export class Counters {
  readonly buffer: SharedArrayBuffer;
  private readonly words: BigInt64Array;

  /** Room for `records` records (32 bytes each), or a view of another thread's buffer. */
  constructor(source: number | SharedArrayBuffer) {
    this.buffer = typeof source === 'number' ? new SharedArrayBuffer(source * WORDS * 8) : source;
    this.words = new BigInt64Array(this.buffer);
  }

  get capacity(): number {
    return this.words.length / WORDS;
  }

  /** Adds `count` unless that would exceed `limit`. */
  enter(record: number, count: number, limit: number | null): boolean {
    const at = record * WORDS + CONCURRENCY;
    for (;;) {
      const before = Atomics.load(this.words, at);
      if (limit !== null && Number(before) + count > limit) return false;
      if (Atomics.compareExchange(this.words, at, before, before + BigInt(count)) === before) return true;
    }
  }

  leave(record: number, count: number): void {
    Atomics.sub(this.words, record * WORDS + CONCURRENCY, BigInt(count));
  }

  concurrency(record: number): number {
    return Number(Atomics.load(this.words, record * WORDS + CONCURRENCY));
  }

  /** Takes `amount` if the bucket holds it: 0. Else takes nothing: milliseconds until it will. `now` in ns. */
  take(record: number, bucket: 'rpm' | 'tpm', amount: number, limit: number, now: bigint): number {
    const at = record * WORDS + (bucket === 'rpm' ? RPM : TPM);
    const cost = costOf(amount, limit);
    for (;;) {
      const before = Atomics.load(this.words, at);
      const after = (before > now ? before : now) + cost;
      if (after - now > NS_PER_MINUTE) return Math.max(1, Number(after - now - NS_PER_MINUTE) / 1e6);
      if (Atomics.compareExchange(this.words, at, before, after) === before) return 0;
    }
  }

  /** Gives `amount` back; a negative amount takes more, below zero if need be. */
  give(record: number, bucket: 'rpm' | 'tpm', amount: number, limit: number, now: bigint): void {
    const at = record * WORDS + (bucket === 'rpm' ? RPM : TPM);
    const cost = costOf(amount, limit);
    for (;;) {
      const before = Atomics.load(this.words, at);
      const after = (before > now ? before : now) - cost;
      if (Atomics.compareExchange(this.words, at, before, after > now ? after : now) === before) return;
    }
  }

  state(record: number, bucket: 'rpm' | 'tpm', limit: number, now: bigint): BucketState {
    const fullAt = Atomics.load(this.words, record * WORDS + (bucket === 'rpm' ? RPM : TPM));
    const missing = fullAt > now ? fullAt - now : 0n;
    // Rounded to a thousandth first: 1 − 59.999999999 / 60 of a limit must not lose a whole unit to division.
    const level = limit - Number(missing) * limit / Number(NS_PER_MINUTE);
    return { limit, remaining: Math.max(0, Math.floor(level + 1e-3)), resetMs: Number(missing) / 1e6 };
  }
}

// Capacity is one minute of refill, so `limit` tokens cost exactly one minute.
function costOf(amount: number, limit: number): bigint {
  return amount === limit ? NS_PER_MINUTE : BigInt(Math.round(amount / limit * 60_000_000_000));
}
