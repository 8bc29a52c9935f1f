// Sketch of durations: counts in buckets that grow by 10% each. Sketches from different hours and threads add up
// exactly, have at most 159 counts regardless of the number of values, and return percentiles within SKETCH_ERROR of
// the true value (Masson, Rim and Lee, DDSketch, 2019, with fixed bounds). No side effects.

/**
 * Bucket i > 0 counts durations from GROWTH ** (i - 1) to GROWTH ** i milliseconds. Bucket 0 counts durations below 1
 * ms.
 */
const GROWTH = 1.1;
/** The last bucket counts durations of one hour or more. */
const LAST = 1 + Math.floor(Math.log(3_600_000) / Math.log(GROWTH));

/** Maximum relative error of a percentile between 1 ms and one hour: sqrt(1.1) - 1. */
export const SKETCH_ERROR = 0.049;

/** Stored form: bucket, count, bucket, count, …, in bucket order. */
export type Sketch = readonly number[];

export interface Quantiles {
  p50: number;
  p90: number;
  p99: number;
}

function bucketOf(ms: number): number {
  return ms < 1 || Number.isNaN(ms) ? 0 : Math.min(LAST, 1 + Math.floor(Math.log(ms) / Math.log(GROWTH)));
}

/** A sum of sketches. */
export class Sketching {
  readonly #counts = new Map<number, number>();

  add(ms: number): this {
    return this.#count(bucketOf(ms), 1);
  }

  merge(sketch: Sketch): this {
    for (let at = 0; at + 1 < sketch.length; at += 2) this.#count(sketch[at] as number, sketch[at + 1] as number);
    return this;
  }

  get count(): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }

  stored(): number[] {
    return this.#sorted().flat();
  }

  /** In milliseconds, by nearest rank; null if empty. */
  quantiles(): Quantiles | null {
    if (this.#counts.size === 0) return null;
    return { p50: this.#at(0.5), p90: this.#at(0.9), p99: this.#at(0.99) };
  }

  #at(share: number): number {
    let left = Math.ceil(share * this.count);
    for (const [bucket, count] of this.#sorted()) {
      left -= count;
      if (left <= 0) return bucket === 0 ? 0.5 : GROWTH ** (bucket - 0.5); // the geometric mean of the bucket's bounds
    }
    return GROWTH ** LAST;
  }

  #sorted(): [number, number][] {
    return [...this.#counts].sort(([a], [b]) => a - b);
  }

  #count(bucket: number, count: number): this {
    this.#counts.set(bucket, (this.#counts.get(bucket) ?? 0) + count);
    return this;
  }
}
