// Token buckets in the records of the shared table, changed with Atomics only, so that any number of HTTP
// threads may count in them.
//
// A token bucket is kept as one number instead of level and timestamp (generic cell rate algorithm): the
// time at which it would be full again, in nanoseconds. level = capacity − (full_at − now) · rate, and full
// when full_at ≤ now. Taking x tokens moves full_at by x / rate; giving back moves it the other way. One
// 64-bit compare-and-swap therefore updates level and refill together. Capacity is one minute of refill, so
// the number is the empty share of the bucket whatever the limit: a new limit acts at once and keeps the share.

import type { RecordTable } from './record-table.js';

const NS_PER_MINUTE = 60_000_000_000n;

/** A limit and what the bucket holds now. */
export interface BucketState {
  limit: number;
  remaining: number;
  resetMs: number;
}

type Bucket = 'rpm' | 'tpm';

export class Counters {
  constructor(private readonly table: RecordTable) {}

  /** Takes `amount` if the bucket holds it: 0. Else takes nothing: milliseconds until it will. `now` in ns. */
  take(record: number, bucket: Bucket, amount: number, limit: number, now: bigint): number {
    const cost = costOf(amount, limit);
    for (;;) {
      const before = this.table.load(record, bucket);
      const after = (before > now ? before : now) + cost;
      if (after - now > NS_PER_MINUTE) return waitMs(after - now);
      if (this.table.change(record, bucket, before, after)) return 0;
    }
  }

  /** Milliseconds until the bucket holds `amount`; 0: it does. */
  wait(record: number, bucket: Bucket, amount: number, limit: number, now: bigint): number {
    const before = this.table.load(record, bucket);
    const after = (before > now ? before - now : 0n) + costOf(amount, limit);
    return after > NS_PER_MINUTE ? waitMs(after) : 0;
  }

  /** Gives `amount` back; a negative amount takes more, below zero if need be. */
  give(record: number, bucket: Bucket, amount: number, limit: number, now: bigint): void {
    const cost = costOf(amount, limit);
    for (;;) {
      const before = this.table.load(record, bucket);
      const after = (before > now ? before : now) - cost;
      if (this.table.change(record, bucket, before, after > now ? after : now)) return;
    }
  }

  /** `record` negative: one that nobody has counted in. */
  state(record: number, bucket: Bucket, limit: number, now: bigint): BucketState {
    const fullAt = record < 0 ? 0n : this.table.load(record, bucket);
    return bucketState(limit, fullAt > now ? Number(fullAt - now) : 0);
  }
}

/** Of a bucket that is full in so many nanoseconds. */
export function bucketState(limit: number, missingNs: number): BucketState {
  // Rounded to a thousandth first: 1 − 59.999999999 / 60 of a limit must not lose a whole unit to division.
  const level = limit - (missingNs * limit) / Number(NS_PER_MINUTE);
  return { limit, remaining: Math.max(0, Math.floor(level + 1e-3)), resetMs: missingNs / 1e6 };
}

const waitMs = (missing: bigint): number => Math.max(1, Number(missing - NS_PER_MINUTE) / 1e6);

function costOf(amount: number, limit: number): bigint {
  return amount === limit ? NS_PER_MINUTE : BigInt(Math.round((amount / limit) * 60_000_000_000));
}
