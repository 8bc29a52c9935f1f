// Counts times in buckets, each wider than the previous one by a twelfth of an octave (about 6%). Counts from several
// threads and several seconds add up bucket by bucket. Counting does not allocate memory.

const PER_OCTAVE = 12;
/** Times shorter than this fall into the first bucket. */
const MIN_MS = 0.05;
const OCTAVES = 23; // up to seven minutes; longer times fall into the last bucket
export const LATENCY_BUCKETS = PER_OCTAVE * OCTAVES;

export interface Quantiles {
  p50: number;
  p95: number;
  p99: number;
  count: number;
}

export function latencyBucket(ms: number): number {
  if (!(ms > MIN_MS)) return 0;
  return Math.min(LATENCY_BUCKETS - 1, Math.floor(Math.log2(ms / MIN_MS) * PER_OCTAVE));
}

/** Returns quantiles of the counts, each the middle of its bucket, or null if nothing was counted. */
export function quantiles(counts: Readonly<Uint32Array>): Quantiles | null {
  const count = total(counts);
  if (count === 0) return null;
  const at = (share: number): number => quantile(counts, share, count);
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99), count };
}

/** The number of counted values. */
export function total(counts: Readonly<Uint32Array>): number {
  let count = 0;
  for (const n of counts) count += n;
  return count;
}

/** One quantile in milliseconds, the middle of its bucket. `share`: 0 to 1; `count`: total(counts), above 0. */
export function quantile(counts: Readonly<Uint32Array>, share: number, count: number): number {
  const rank = Math.max(1, Math.ceil(share * count));
  let seen = 0;
  for (let bucket = 0; bucket < counts.length; bucket++) {
    seen += counts[bucket] as number;
    if (seen >= rank) return Number((MIN_MS * 2 ** ((bucket + 0.5) / PER_OCTAVE)).toPrecision(3));
  }
  return 0;
}

/** Sums over the last `rounds` rounds. Each round's counts are subtracted again `rounds` calls later. */
export class SlidingCounts {
  readonly sum = new Uint32Array(LATENCY_BUCKETS);
  readonly #rounds: (Uint32Array | null)[];
  #next = 0;

  constructor(rounds: number) {
    this.#rounds = new Array<Uint32Array | null>(rounds).fill(null);
  }

  /** Adds one round; null if nothing was counted in it. Retains the array. */
  add(counts: Uint32Array | null): void {
    const leaving = this.#rounds[this.#next] ?? null;
    if (leaving !== null)
      for (let i = 0; i < LATENCY_BUCKETS; i++) this.sum[i] = (this.sum[i] as number) - (leaving[i] as number);
    if (counts !== null)
      for (let i = 0; i < LATENCY_BUCKETS; i++) this.sum[i] = (this.sum[i] as number) + (counts[i] as number);
    this.#rounds[this.#next] = counts;
    this.#next = (this.#next + 1) % this.#rounds.length;
  }
}
