// What a tuning run is to do.

import type { TuneLoadKind } from '../wire/tuning.js';

export interface TunePlan {
  readonly id: string; readonly model: string; readonly by: string;
  readonly objectives: readonly string[];
  readonly workload: string;
  readonly loadKind: TuneLoadKind;
  /** In the load's unit. */
  readonly minLoad: number; readonly maxLoad: number;
  /** Measurements, all together. */
  readonly trials: number;
  readonly trialSeconds: number;
  readonly seed: number;
  readonly apply: boolean;
}

/** With fewer there is nothing to go by. */
export const LEAST_TRIALS = 16;
export const MOST_TRIALS = 200;
