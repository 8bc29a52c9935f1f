// What the server and the process that drives its load tell each other. The server holds the engine; the child asks.

import type { TuneRun, TuneSettings } from '../../shared/wire/tuning.js';
import type { TuneTarget, TuneWorkload } from './load.js';
import type { TunePlan } from './plan.js';
import type { TuneRanges } from './ports.js';

export interface ChildStart {
  readonly type: 'start';
  readonly plan: TunePlan;
  /** As parseObjectives reads them. */
  readonly slo: string;
  readonly target: TuneTarget;
  readonly workload: TuneWorkload;
  readonly before: TuneSettings;
  readonly ranges: TuneRanges;
}

export type ToChild =
  | ChildStart
  /** What was asked for is done, or why not. */
  | { readonly type: 'answer'; readonly number: number; readonly error: string | null }
  /** Nobody wants it any more. */
  | { readonly type: 'stop' }
  /** The engine is somebody else's. */
  | { readonly type: 'lost'; readonly message: string };

export type Wish = { readonly what: 'set' | 'apply'; readonly settings: TuneSettings } | { readonly what: 'release' };

export type ToParent =
  | { readonly type: 'ask'; readonly number: number; readonly wish: Wish }
  | { readonly type: 'run'; readonly run: TuneRun }
  /** It could not begin. */
  | { readonly type: 'failed'; readonly message: string };
