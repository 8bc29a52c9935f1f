// What the server and the process that drives its load tell each other. The server holds the engine; the child asks.

import type { TraceRow } from '../loadtest/types.js';
import type { TuneRun, TuneSettings } from '../wire/tuning.js';
import type { TunePlan } from './plan.js';
import type { TuneRanges } from './ports.js';
import type { TuneTarget, TuneWorkload } from './load.js';

export interface ChildStart {
  readonly type: 'start';
  readonly plan: TunePlan; readonly slo: string;
  readonly target: TuneTarget; readonly workload: TuneWorkload;
  readonly before: TuneSettings; readonly ranges: TuneRanges;
}

export type ToChild =
  | ChildStart
  /** What was asked for is done, or was refused. */
  | { readonly type: 'answer'; readonly number: number; readonly error: string | null }
  /** Nobody wants it any more. */
  | { readonly type: 'stop' }
  /** The engine is somebody else's. */
  | { readonly type: 'lost'; readonly message: string };

export type ToParent =
  | { readonly type: 'ask'; readonly number: number; readonly what: 'set' | 'apply'; readonly settings: TuneSettings }
  | { readonly type: 'ask'; readonly number: number; readonly what: 'release' }
  | { readonly type: 'run'; readonly run: TuneRun };

export type { TraceRow };
