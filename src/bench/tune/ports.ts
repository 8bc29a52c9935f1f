// The interfaces that a tuning run needs: a leased engine whose settings can be changed, and a function that measures a
// load.

import type { TuneSettings, TuneVerdict } from '../../shared/wire/tuning.js';

/** Minimum and maximum of each setting. */
export type TuneRanges = Readonly<Record<keyof TuneSettings, { readonly min: number; readonly max: number }>>;

/**
 * A leased engine. Only the lease's holder can change its settings. The previous settings are restored even if the
 * holder terminates.
 */
export interface HeldEngine {
  readonly before: TuneSettings;
  readonly ranges: TuneRanges;
  /** Aborted with an Error if another client changed the settings or the server stopped responding. */
  readonly lost: AbortSignal;
  /** Applies trial settings until the next call or the release. */
  set(settings: TuneSettings): Promise<void>;
  /** Makes the settings permanent, so that they also apply after a restart. */
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
  /** One verdict per objective, in the order of the objectives. */
  readonly verdicts: readonly TuneVerdict[];
  readonly stopped: boolean;
  readonly errors: Readonly<Record<string, number>>;
}

/**
 * `load`: the load to generate, in the unit of the plan's kind of load. Rejects if measuring is impossible or `signal`
 * is aborted.
 */
export type Measure = (asked: {
  readonly load: number;
  readonly seed: number;
  readonly mayStopEarly: boolean;
  readonly signal: AbortSignal;
}) => Promise<Measurement>;
