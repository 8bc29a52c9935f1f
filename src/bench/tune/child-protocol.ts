// Messages between the server and the child process that generates its load. The server holds the engine's lease. The
// child sends it requests to change the engine's settings.

import type { TuneRun, TuneSettings } from '../../shared/wire/tuning.js';
import type { TuneTarget, TuneWorkload } from './load.js';
import type { TunePlan } from './plan.js';
import type { TuneRanges } from './ports.js';

export interface ChildStart {
  readonly type: 'start';
  readonly plan: TunePlan;
  /** In the notation of parseObjectives. */
  readonly slo: string;
  readonly target: TuneTarget;
  readonly workload: TuneWorkload;
  readonly before: TuneSettings;
  readonly ranges: TuneRanges;
}

export type ToChild =
  | ChildStart
  /** The reply to a request: null if the request succeeded, otherwise the reason why it failed. */
  | { readonly type: 'answer'; readonly number: number; readonly error: string | null }
  /** Stop the run. */
  | { readonly type: 'stop' }
  /** The engine's lease was lost. */
  | { readonly type: 'lost'; readonly message: string };

export type SettingsRequest =
  | { readonly what: 'set' | 'apply'; readonly settings: TuneSettings }
  | { readonly what: 'release' };

export type ToParent =
  | { readonly type: 'ask'; readonly number: number; readonly request: SettingsRequest }
  | { readonly type: 'run'; readonly run: TuneRun }
  /** The run could not start. */
  | { readonly type: 'failed'; readonly message: string };
