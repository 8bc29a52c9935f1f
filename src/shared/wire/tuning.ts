// What the server, the command line and the dashboard tell each other of tuning runs. Types only.

/** Of an engine: the three that shape its steps, as `monolith serve` takes them. */
export interface TuneSettings {
  max_batch_tokens: number;
  max_sequences: number;
  step_ms: number;
}
export type TuneSettingName = keyof TuneSettings;

/** What is raised until an objective gives: requests under way, requests a second, or the speed of a trace (1: as it was). */
export type TuneLoadKind = 'concurrency' | 'rate' | 'speed';

/** `value`: null where nothing was measured or more failed than the objective allows. Latencies in ms, `errors` a share. */
export interface TuneVerdict {
  name: string;
  limit: number;
  value: number | null;
  met: boolean;
}

/** What a measurement is for: the settings as they were; the search; the best again; the best before it is kept. */
export type TunePhase = 'current' | 'search' | 'confirm' | 'verify';

export interface TuneTrial {
  number: number;
  phase: TunePhase;
  settings: TuneSettings;
  load: number;
  seconds: number;
  /** Requests a second that were answered; that kept every objective. */
  throughput: number;
  goodput: number;
  output_tokens_per_s: number;
  /** p50 and p99 in milliseconds; null: nothing was answered. */
  ttft_ms: [number, number] | null;
  itl_ms: [number, number] | null;
  verdicts: TuneVerdict[];
  /** All objectives are met. */
  met: boolean;
  /** Ended early, as it could not meet them any more. */
  stopped: boolean;
  /** Failed requests by kind. */
  errors: Record<string, number>;
  /** On the front of goodput against latency: no other trial has more of one and no less of the other. */
  front: boolean;
}

/** Settings with the most load that they bear. `goodput`: of its confirming runs, with their 95 percent interval. */
export interface TunePick {
  settings: TuneSettings;
  load: number;
  goodput: { mean: number; low: number | null; high: number | null; runs: number[] };
  verdicts: TuneVerdict[];
}

/** `advised`: better, and not asked to set it. `kept`: nothing that is surely better was found. */
export type TuneOutcome = 'advised' | 'kept' | 'applied' | 'rolled_back' | 'nothing_meets';

export interface TuneResult {
  outcome: TuneOutcome;
  /** With the settings as they were; null: they meet the objectives under no load that was tried. */
  current: TunePick | null;
  best: TunePick | null;
  /** Of goodput, best over current; null where one is missing. */
  gain: number | null;
  /** In a sentence or two. */
  says: string;
}

export interface TuneRun {
  object: 'tune_run';
  id: string;
  model: string;
  state: 'running' | 'done' | 'stopped' | 'failed';
  /** Why it failed or was stopped. */
  error: string | null;
  /** Who began it. */
  by: string;
  started_at: string;
  ended_at: string | null;
  /** As they are written: `ttft_p99=500ms`. */
  objectives: string[];
  /** In words. */
  workload: string;
  load_kind: TuneLoadKind;
  /** Largest number of measurements, and seconds of each. */
  trials_planned: number;
  trial_s: number;
  seed: number;
  apply: boolean;
  before: TuneSettings;
  phase: TunePhase;
  trials: TuneTrial[];
  result: TuneResult | null;
}

/** In lists: without its trials. */
export interface TuneRunSummary extends Omit<TuneRun, 'trials'> {
  trials_done: number;
}

/** POST …/operator/tuning */
export interface TuneStart {
  model: string;
  /** `ttft_p99=500ms,itl_p99=50ms` */
  slo: string;
  /** `recent`: lengths of this server's last requests; `fixed`: always so many tokens. */
  workload: { kind: 'recent' } | { kind: 'fixed'; prompt_tokens: number; output_tokens: number };
  load: 'concurrency' | 'rate';
  /** Most requests under way (or a second). Absent: chosen. */
  max_load?: number | undefined;
  trials: number;
  trial_s: number;
  apply: boolean;
}
