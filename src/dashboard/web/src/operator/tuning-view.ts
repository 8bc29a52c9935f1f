// Data for the tuning page: formatted numbers, descriptions and chart points. Does not need the DOM.
import { duration } from '../format.js';
import type {
  TuneLoadKind,
  TunePhase,
  TunePick,
  TuneRun,
  TuneRunSummary,
  TuneSettings,
  TuneStart,
  TuneTrial,
} from '../../../../shared/wire/tuning.js';

export const LOAD_UNITS: Record<TuneLoadKind, string> = {
  concurrency: 'concurrent',
  rate: 'requests/s',
  speed: 'times as fast',
};
export const PHASE_LABELS: Record<TunePhase, string> = {
  current: 'Baseline',
  search: 'Search',
  confirm: 'Confirm',
  verify: 'Verify',
};

/** "12 concurrent" */
export const loadText = (kind: TuneLoadKind, load: number): string =>
  `${load.toLocaleString('en-US')} ${LOAD_UNITS[kind]}`;
/** "256 tokens, 32 sequences, 250 ms" */
export const settingsText = ({
  max_batch_tokens: tokens,
  max_sequences: sequences,
  step_ms: ms,
}: TuneSettings): string => `${tokens} tokens, ${sequences} sequences, ${ms === 0 ? 'no step limit' : `${ms} ms`}`;
/** A number rounded to three significant digits. */
export const figure = (value: number): string =>
  value >= 100 ? Math.round(value).toLocaleString('en-US') : String(Number(value.toPrecision(3)));

/** "4.2 /s (3.9 to 4.5)" */
export function goodputText({ goodput: { mean, low, high } }: TunePick): string {
  return `${figure(mean)} /s${low === null || high === null ? '' : ` (${figure(Math.max(0, low))} to ${figure(high)})`}`;
}

/** "1.4 times"; null if there is nothing to compare against. */
export const gainText = (gain: number | null): string | null => (gain === null ? null : `${gain.toFixed(2)} times`);

/** 0 to 1. */
export const progressOf = ({
  trials_planned: planned,
  trials_done: done,
  state,
}: Pick<TuneRunSummary, 'trials_planned' | 'trials_done' | 'state'>): number =>
  state === 'done' ? 1 : Math.min(1, done / Math.max(1, planned));

/** Estimated seconds left, including each measurement's warm-up and drain. Null once the run has ended. */
export function secondsLeft({
  state,
  trials,
  trials_planned: planned,
  trial_s: seconds,
}: Pick<TuneRun, 'state' | 'trials' | 'trials_planned' | 'trial_s'>): number | null {
  if (state !== 'running') return null;
  const each =
    trials.length === 0 ? 1.4 * seconds : trials.reduce((sum, trial) => sum + trial.seconds, 0) / trials.length;
  return Math.max(0, planned - trials.length) * each;
}

export interface Spot {
  readonly trial: TuneTrial;
  readonly x: number;
  readonly y: number;
}
export interface Axis {
  readonly min: number;
  readonly max: number;
  readonly ticks: readonly number[];
}

/** Completed measurements as points: x is the 99th percentile of time to first token, y is goodput. */
export const spotsOf = (trials: readonly TuneTrial[]): Spot[] =>
  trials.flatMap((trial) =>
    trial.stopped || trial.ttft_ms === null || trial.ttft_ms[1] <= 0
      ? []
      : [{ trial, x: trial.ttft_ms[1], y: trial.goodput }],
  );

/** The Pareto-optimal points, from left to right. */
export const paretoFrontOf = (spots: readonly Spot[]): Spot[] =>
  spots.filter(({ trial }) => trial.front).sort((a, b) => a.x - b.x);

/** A logarithmic axis with ticks at 1, 2 and 5 times powers of ten. */
export function logAxis(values: readonly number[]): Axis {
  const least = Math.min(...values, Infinity);
  const most = Math.max(...values, 0);
  if (!(most > 0)) return { min: 1, max: 1_000, ticks: [1, 10, 100, 1_000] };
  const ladder = Array.from({ length: 27 }, (_, at) => [1, 2, 5][at % 3]! * 10 ** (Math.floor(at / 3) - 2));
  const min = ladder.filter((one) => one <= least).at(-1) ?? ladder[0]!;
  const max = ladder.find((one) => one >= most && one > min) ?? ladder.at(-1)!;
  const within = ladder.filter((one) => one >= min && one <= max);
  return { min, max, ticks: within.length > 7 ? within.filter((one) => /^[^1-9]*1/.test(String(one))) : within };
}

/** A linear axis that starts at 0 and has four or five round steps. */
export function linearAxis(values: readonly number[]): Axis {
  const most = Math.max(...values, 0);
  if (!(most > 0)) return { min: 0, max: 1, ticks: [0, 0.5, 1] };
  const rough = most / 4;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 2.5, 5, 10].find((one) => one * size >= rough) ?? 10) * size;
  const count = Math.ceil(most / step - 1e-9);
  return {
    min: 0,
    max: count * step,
    ticks: Array.from({ length: count + 1 }, (_, at) => Number((at * step).toPrecision(6))),
  };
}

/** The form's field values as typed. */
export interface StartDraft {
  model: string;
  /**
   * The objectives as entered: upper bounds on latencies in ms, at `percentile`, and on failed requests in percent.
   * Empty: no objective.
   */
  ttft: string;
  itl: string;
  errors: string;
  percentile: string;
  workload: 'recent' | 'fixed';
  promptTokens: string;
  outputTokens: string;
  load: 'concurrency' | 'rate';
  maxLoad: string;
  trials: string;
  trialS: string;
  apply: boolean;
}

export const FIRST_DRAFT: StartDraft = {
  model: '',
  ttft: '500',
  itl: '50',
  errors: '',
  percentile: 'p99',
  workload: 'recent',
  promptTokens: '256',
  outputTokens: '64',
  load: 'concurrency',
  maxLoad: '',
  trials: '40',
  trialS: '10',
  apply: false,
};

const METRICS: Record<string, string> = {
  ttft: 'Time to first token',
  itl: 'Inter-token latency',
  tpot: 'Time per output token',
  e2e: 'Duration',
};

/** "Time to first token p99" for `ttft_p99`; "Failed requests" for `errors`. */
export function objectiveName(name: string): string {
  if (name === 'errors') return 'Failed requests';
  const [, metric = '', percentile = ''] = /^([a-z0-9]+)_(p[\d.]+)$/.exec(name) ?? [];
  return METRICS[metric] === undefined ? name : `${METRICS[metric]} ${percentile}`;
}

/** "Time to first token p99 ≤ 500 ms" for `ttft_p99=500ms`. */
export function objectiveText(objective: string): string {
  const [name = '', limit] = objective.split('=');
  if (limit === undefined) return objective;
  const [, value, unit] = /^([\d.]+)(ms|s)$/.exec(limit) ?? [];
  return `${objectiveName(name)} ≤ ${value === undefined ? limit : duration(Number(value) * (unit === 's' ? 1000 : 1))}`;
}

export const OBJECTIVES = ['ttft', 'itl', 'errors'] as const;
type Objectives = Pick<StartDraft, (typeof OBJECTIVES)[number] | 'percentile'>;

/** The objectives in the notation of the server and the command line: `ttft_p99=500ms,errors=1%`. */
export function sloOf({ ttft, itl, errors, percentile }: Objectives): string {
  return [
    ttft.trim() === '' ? null : `ttft_${percentile}=${ttft.trim()}ms`,
    itl.trim() === '' ? null : `itl_${percentile}=${itl.trim()}ms`,
    errors.trim() === '' ? null : `errors=${errors.trim()}%`,
  ]
    .filter((part) => part !== null)
    .join();
}

/** Errors in the entered objectives, by field and without the field's name. */
export function objectiveProblems(draft: Objectives): Partial<Record<(typeof OBJECTIVES)[number], string>> {
  if (OBJECTIVES.every((name) => draft[name].trim() === '')) return { ttft: 'or another objective is required.' };
  return Object.fromEntries(
    OBJECTIVES.flatMap((name) => {
      const text = draft[name].trim();
      const value = Number(text);
      const isFine = text === '' || (value > 0 && Number.isFinite(value) && (name !== 'errors' || value <= 100));
      return isFine ? [] : [[name, `must be a number above 0${name === 'errors' ? ', at most 100' : ''}.`]];
    }),
  );
}

/** The server's limits on the number and the duration of measurements. */
const TRIALS = [16, 120] as const;
const TRIAL_S = [0.2, 300] as const;

/**
 * Upper bound of a run's duration in ms, including warm-up and drain of each measurement; null if the server would
 * refuse the run.
 */
export function estimateMs({ trials, trialS }: Pick<StartDraft, 'trials' | 'trialS'>): number | null {
  const [count, seconds] = [Number(trials), Number(trialS)];
  const isIn = (value: number, [min, max]: readonly [number, number]): boolean => value >= min && value <= max;
  return isIn(count, TRIALS) && isIn(seconds, TRIAL_S) ? count * seconds * 1.4 * 1000 : null;
}

/** The request body. The server validates it. */
export function startOf({
  model,
  workload,
  promptTokens,
  outputTokens,
  load,
  maxLoad,
  trials,
  trialS,
  apply,
  ...objectives
}: StartDraft): TuneStart {
  return {
    model,
    slo: sloOf(objectives),
    workload:
      workload === 'recent'
        ? { kind: 'recent' }
        : { kind: 'fixed', prompt_tokens: Number(promptTokens), output_tokens: Number(outputTokens) },
    load,
    ...(maxLoad.trim() === '' ? {} : { max_load: Number(maxLoad) }),
    trials: Number(trials),
    trial_s: Number(trialS),
    apply,
  };
}
