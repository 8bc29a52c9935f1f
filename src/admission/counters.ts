// Token buckets in the records of the shared table. They are changed only with Atomics, so any number of HTTP workers
// can use them.
//
// Instead of a level and a timestamp, a bucket stores a single number (generic cell rate algorithm): the time at which
// it will be full again, in nanoseconds. level = capacity − (full_at − now) · rate, and the bucket is full when full_at
// ≤ now. Taking x tokens moves full_at forward by x / rate, and returning tokens moves it back. A single 64-bit
// compare-and-swap thus updates both level and refill. The capacity is one minute's refill, so the number also
// determines what fraction of the bucket is empty. A changed limit takes effect immediately and preserves that
// fraction.

import type { RecordTable } from './record-table.js';

const NS_PER_MINUTE = 60_000_000_000n;

/** A limit and the current level of its bucket. */
export interface BucketState {
  limit: number;
  remaining: number;
  resetMs: number;
}

type Bucket = 'rpm' | 'tpm';

export class Counters {
  constructor(private readonly table: RecordTable) {}

  /**
   * Takes `amount` from the bucket and returns 0 if the bucket has enough. Otherwise, takes nothing and returns the
   * milliseconds until the bucket will have enough. `now` is in ns.
   */
  take(record: number, bucket: Bucket, amount: number, limit: number, now: bigint): number {
    const cost = costOf(amount, limit);
    for (;;) {
      const before = this.table.load(record, bucket);
      const after = (before > now ? before : now) + cost;
      if (after - now > NS_PER_MINUTE) return waitMs(after - now);
      if (this.table.change(record, bucket, before, after)) return 0;
    }
  }

  /** Milliseconds until the bucket has `amount`, or 0 if it has enough now. */
  wait(record: number, bucket: Bucket, amount: number, limit: number, now: bigint): number {
    const before = this.table.load(record, bucket);
    const after = (before > now ? before - now : 0n) + costOf(amount, limit);
    return after > NS_PER_MINUTE ? waitMs(after) : 0;
  }

  /** Returns `amount` to the bucket. A negative amount takes more, which may bring the level below zero. */
  give(record: number, bucket: Bucket, amount: number, limit: number, now: bigint): void {
    const cost = costOf(amount, limit);
    for (;;) {
      const before = this.table.load(record, bucket);
      const after = (before > now ? before : now) - cost;
      if (this.table.change(record, bucket, before, after > now ? after : now)) return;
    }
  }

  /** A negative `record` means that no record exists, so the bucket is full. */
  state(record: number, bucket: Bucket, limit: number, now: bigint): BucketState {
    const fullAt = record < 0 ? 0n : this.table.load(record, bucket);
    return bucketState(limit, fullAt > now ? Number(fullAt - now) : 0);
  }
}

/** The state of a bucket that will be full in `missingNs` nanoseconds. */
export function bucketState(limit: number, missingNs: number): BucketState {
  // The value is rounded to a thousandth first, so that a rounding error in the division cannot reduce the result by a
  // whole unit (as in 1 − 59.999999999 / 60 of a limit).
  const level = limit - (missingNs * limit) / Number(NS_PER_MINUTE);
  return { limit, remaining: Math.max(0, Math.floor(level + 1e-3)), resetMs: missingNs / 1e6 };
}

const waitMs = (missing: bigint): number => Math.max(1, Number(missing - NS_PER_MINUTE) / 1e6);

function costOf(amount: number, limit: number): bigint {
  return amount === limit ? NS_PER_MINUTE : BigInt(Math.round((amount / limit) * 60_000_000_000));
}
