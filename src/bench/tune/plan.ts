// The plan of a tuning run.

import type { TuneLoadKind, TuneRun, TuneSettings } from '../../shared/wire/tuning.js';

export interface TunePlan {
  readonly id: string;
  readonly model: string;
  readonly by: string;
  /** RFC 3339. */
  readonly startedAt: string;
  readonly objectives: readonly string[];
  readonly workload: string;
  readonly loadKind: TuneLoadKind;
  /** In the load's unit. */
  readonly minLoad: number;
  readonly maxLoad: number;
  /** Total number of measurements. */
  readonly trials: number;
  readonly trialSeconds: number;
  readonly seed: number;
  readonly apply: boolean;
}

/** Minimum number of measurements in a run. With fewer, no result can be derived. */
export const MIN_TRIALS = 16;
export const MAX_TRIALS = 120;
export const MAX_TRIAL_S = 300;

/** The value of `by` for runs started on the command line. */
export const BY_COMMAND = 'monolith bench tune';

/** The initial state of a run. */
export const newRun = (plan: TunePlan, before: TuneSettings): TuneRun => ({
  object: 'tune_run',
  id: plan.id,
  model: plan.model,
  state: 'running',
  error: null,
  by: plan.by,
  started_at: plan.startedAt,
  ended_at: null,
  objectives: [...plan.objectives],
  workload: plan.workload,
  load_kind: plan.loadKind,
  trials_planned: plan.trials,
  trial_s: plan.trialSeconds,
  seed: plan.seed,
  apply: plan.apply,
  before,
  phase: 'current',
  trials: [],
  result: null,
});
