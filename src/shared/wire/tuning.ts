// Tuning runs, as exchanged between the server, the command line and the dashboard. Types only.

/** The three engine settings that control an engine's steps, as accepted by `monolith serve`. */
export interface TuneSettings {
  max_batch_tokens: number;
  max_sequences: number;
  step_ms: number;
}
export type TuneSettingName = keyof TuneSettings;

/**
 * The load parameter that is increased until an objective is missed: concurrent requests, requests per second, or the
 * speed of a trace (1 = original speed).
 */
export type TuneLoadKind = 'concurrency' | 'rate' | 'speed';

/**
 * `value`: null if nothing was measured or if more requests failed than the objective allows. Latencies are in ms,
 * `errors` is a fraction.
 */
export interface TuneVerdict {
  name: string;
  limit: number;
  value: number | null;
  met: boolean;
}

/**
 * The purpose of a measurement: the current settings, the search, repeating the best settings, or verifying the best
 * settings before they are applied.
 */
export type TunePhase = 'current' | 'search' | 'confirm' | 'verify';

export interface TuneTrial {
  number: number;
  phase: TunePhase;
  settings: TuneSettings;
  load: number;
  seconds: number;
  /** Completed requests per second, and how many of them met every objective. */
  throughput: number;
  goodput: number;
  output_tokens_per_s: number;
  /** p50 and p99 in milliseconds; null if no request completed. */
  ttft_ms: [number, number] | null;
  itl_ms: [number, number] | null;
  verdicts: TuneVerdict[];
  /** Whether all objectives are met. */
  met: boolean;
  /** Whether the trial ended early, because it could no longer meet the objectives. */
  stopped: boolean;
  /** Number of failed requests by failure type. */
  errors: Record<string, number>;
  /**
   * Whether the trial is on the Pareto front of goodput and latency: no other trial is better in one of them and at
   * least as good in the other.
   */
  front: boolean;
}

/**
 * Settings, and the highest load that they sustain. `goodput`: the goodput in the confirmation runs, with a 95%
 * confidence interval.
 */
export interface TunePick {
  settings: TuneSettings;
  load: number;
  goodput: { mean: number; low: number | null; high: number | null; runs: number[] };
  verdicts: TuneVerdict[];
}

/**
 * `advised`: a better setting was found, but applying it was not requested. `kept`: no setting is significantly better.
 */
export type TuneOutcome = 'advised' | 'kept' | 'applied' | 'rolled_back' | 'nothing_meets';

export interface TuneResult {
  outcome: TuneOutcome;
  /** The result for the current settings; null if they did not meet the objectives at any tested load. */
  current: TunePick | null;
  best: TunePick | null;
  /** Ratio of the best to the current goodput; null if either is missing. */
  gain: number | null;
  /** A summary in one or two sentences. */
  says: string;
}

export interface TuneRun {
  object: 'tune_run';
  id: string;
  model: string;
  state: 'running' | 'done' | 'stopped' | 'failed';
  /** Why the run failed or was stopped. */
  error: string | null;
  /** The user or command that started the run. */
  by: string;
  started_at: string;
  ended_at: string | null;
  /** In text form: `ttft_p99=500ms`. */
  objectives: string[];
  /** A description for display. */
  workload: string;
  load_kind: TuneLoadKind;
  /** Maximum number of measurements, and the duration of each in seconds. */
  trials_planned: number;
  trial_s: number;
  seed: number;
  apply: boolean;
  before: TuneSettings;
  phase: TunePhase;
  trials: TuneTrial[];
  result: TuneResult | null;
}

/** A run as listed, without its trials. */
export interface TuneRunSummary extends Omit<TuneRun, 'trials'> {
  trials_done: number;
}

/** POST …/operator/tuning */
export interface TuneStart {
  model: string;
  /** `ttft_p99=500ms,itl_p99=50ms` */
  slo: string;
  /** `recent`: the lengths of this server's recent requests; `fixed`: fixed lengths. */
  workload: { kind: 'recent' } | { kind: 'fixed'; prompt_tokens: number; output_tokens: number };
  load: 'concurrency' | 'rate';
  /** Maximum number of concurrent requests, or of requests per second. Default: chosen automatically. */
  max_load?: number | undefined;
  trials: number;
  trial_s: number;
  apply: boolean;
}
