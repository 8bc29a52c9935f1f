// Statistics for samples and for repeated runs. No side effects.

import type { Distribution, Repeated } from './types.js';

/**
 * Linear interpolation between the two nearest ranks, as in NumPy. `sorted`: ascending, not empty; `percentile`: 0 to
 * 100.
 */
export function percentileOf(sorted: ArrayLike<number>, percentile: number): number {
  const place = ((sorted.length - 1) * percentile) / 100;
  const below = Math.floor(place);
  const low = sorted[below] ?? NaN;
  const high = sorted[Math.min(sorted.length - 1, below + 1)] ?? NaN;
  // the difference between two infinities is NaN
  return low === high || place === below ? low : low + (high - low) * (place - below);
}

/**
 * `sorted`: ascending. Null if it is empty. The standard deviation is the population standard deviation, as in vLLM and
 * NumPy.
 */
export function distributionOf(sorted: ArrayLike<number>): Distribution | null {
  const count = sorted.length;
  if (count === 0) return null;
  let sum = 0;
  for (let i = 0; i < count; i++) sum += sorted[i] as number;
  const mean = sum / count;
  let squares = 0;
  for (let i = 0; i < count; i++) squares += ((sorted[i] as number) - mean) ** 2;
  const at = (percentile: number): number => percentileOf(sorted, percentile);
  return {
    count,
    mean,
    deviation: Math.sqrt(squares / count),
    min: at(0),
    p50: at(50),
    p75: at(75),
    p90: at(90),
    p95: at(95),
    p99: at(99),
    max: at(100),
  };
}

export const ascending = (values: readonly number[]): Float64Array => Float64Array.from(values).sort();

// Two-sided 95% quantiles of Student's t distribution, for 1, 2, 3, … degrees of freedom. For more degrees of freedom,
// the last entry is used.
const T95 = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11,
  2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/** The mean over runs with its 95% confidence interval. `runs`: at least one. */
export function repeatedOf(runs: readonly number[]): Repeated {
  const count = runs.length;
  const mean = runs.reduce((sum, value) => sum + value, 0) / count;
  if (count < 2) return { mean, low: null, high: null, runs };
  const variance = runs.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (count - 1);
  const half = (T95[Math.min(count - 2, T95.length - 1)] as number) * Math.sqrt(variance / count);
  return { mean, low: mean - half, high: mean + half, runs };
}
