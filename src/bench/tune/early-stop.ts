// Decides during a measurement whether it is statistically certain that the objectives will be missed, in which case
// the measurement can end early. No side effects.

import { failed, latencyOf } from '../load/objectives.js';
import type { Objective, RequestRecord } from '../load/types.js';

/**
 * Minimum number of samples. Inter-token latencies within a response are correlated, so GAPS_A_SAMPLE latencies count
 * as one sample.
 */
const MIN_SAMPLES = 15;
const GAPS_A_SAMPLE = 8;
/**
 * The chance of being wrong is one in a thousand, and the objective must be missed by a margin, so measurements close
 * to an objective run to the end.
 */
const Z = 3.1;
const BEYOND = 1.5;

export class EarlyStop {
  readonly #counts: { samples: number; misses: number }[];

  constructor(private readonly objectives: readonly Objective[]) {
    this.#counts = objectives.map(() => ({ samples: 0, misses: 0 }));
  }

  add(record: RequestRecord): void {
    if (record.phase !== 'measured' || record.error?.kind === 'cancelled') return;
    const isFailed = failed(record);
    this.objectives.forEach(({ metric, limit }, at) => {
      const count = this.#counts[at] as { samples: number; misses: number };
      if (metric === 'errors' || isFailed) {
        count.samples++;
        if (isFailed) count.misses++;
      } else if (metric === 'itl') {
        count.samples += record.gaps.length / GAPS_A_SAMPLE;
        count.misses += record.gaps.reduce((sum, gap) => sum + (gap > limit ? 1 : 0), 0) / GAPS_A_SAMPLE;
      } else {
        const value = latencyOf(record, metric);
        if (value === null) return;
        count.samples++;
        if (value > limit) count.misses++;
      }
    });
  }

  get isHopeless(): boolean {
    return this.objectives.some(({ percentile, limit }, at) => {
      const { samples, misses } = this.#counts[at] as { samples: number; misses: number };
      const allowed = percentile === null ? limit : 1 - percentile / 100;
      return samples >= MIN_SAMPLES && leastShare(misses, samples) > Math.min(0.95, allowed * BEYOND + 0.01);
    });
  }
}

/** Lower bound of a proportion's Wilson score interval. */
function leastShare(hits: number, samples: number): number {
  const share = hits / samples;
  const z2 = (Z * Z) / samples;
  return (share + z2 / 2 - Z * Math.sqrt((share * (1 - share)) / samples + z2 / (4 * samples))) / (1 + z2);
}
