// The interfaces that a tuning run needs: a leased engine with changeable settings, and a function that measures a
// load.

import type { TuneSettings, TuneVerdict } from '../../shared/wire/tuning.js';

/** Minimum and maximum of each setting. */
export type TuneRanges = Readonly<Record<keyof TuneSettings, { readonly min: number; readonly max: number }>>;

/**
 * A leased engine: nobody else can change its settings, and the previous settings are restored whatever happens to the
 * lease's holder.
 */
export interface HeldEngine {
  readonly before: TuneSettings;
  readonly ranges: TuneRanges;
  /** Aborted with an Error if the settings were changed by someone else, or if the server is gone. */
  readonly lost: AbortSignal;
  /** In force until the next call or the release. */
  set(settings: TuneSettings): Promise<void>;
  /** Makes the settings permanent, also for later starts. */
  apply(settings: TuneSettings): Promise<void>;
  /** Restores the permanent settings. Idempotent. */
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

/** `load`: in its own unit. Rejects if measuring is impossible, or when `signal` aborts. */
export type Measure = (asked: {
  readonly load: number;
  readonly seed: number;
  readonly mayStopEarly: boolean;
  readonly signal: AbortSignal;
}) => Promise<Measurement>;
