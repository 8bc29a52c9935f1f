// What a tuning run asks of the world: an engine whose settings it may hold for a while, and a load that measures it.

import type { TuneSettings, TuneVerdict } from '../../shared/wire/tuning.js';

/** Smallest and largest of each. */
export type TuneRanges = Readonly<Record<keyof TuneSettings, { readonly min: number; readonly max: number }>>;

/** One engine, held: others do not set it meanwhile, and what it had before comes back whatever happens to the holder. */
export interface HeldEngine {
  readonly before: TuneSettings;
  readonly ranges: TuneRanges;
  /** Aborted with an Error when somebody else has changed the settings, or the server is gone. */
  readonly lost: AbortSignal;
  /** Until the next one, or the release. */
  set(settings: TuneSettings): Promise<void>;
  /** Keeps them, also for later starts. */
  apply(settings: TuneSettings): Promise<void>;
  /** What is kept is in force again. Idempotent. */
  release(): Promise<void>;
}

export interface Measurement {
  readonly seconds: number;
  readonly throughput: number;
  readonly goodput: number;
  readonly outputTokensPerSecond: number;
  readonly ttftMs: readonly [number, number] | null;
  readonly itlMs: readonly [number, number] | null;
  /** In the order of the objectives. */
  readonly verdicts: readonly TuneVerdict[];
  readonly stopped: boolean;
  readonly errors: Readonly<Record<string, number>>;
}

/** `load`: in its own unit. Rejects if nothing can be measured at all, or as `signal` says. */
export type Measure = (asked: {
  readonly load: number;
  readonly seed: number;
  readonly mayStopEarly: boolean;
  readonly signal: AbortSignal;
}) => Promise<Measurement>;
