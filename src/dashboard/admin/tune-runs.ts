// Tuning runs, those under way included, as far as they have come: a port, see docs/internals/storage.md.

import type { TuneRun, TuneRunSummary } from '../../shared/wire/tuning.js';

/** The oldest go. */
export const MAX_RUNS = 50;

export interface TuneRunStore {
  /** Writes the run, whole. Beyond MAX_RUNS the oldest that have ended go. `keyId`: of the API key that it asks with, if the server made it. */
  put(run: TuneRun, keyId: string | null): Promise<void>;
  get(id: string): Promise<TuneRun | null>;
  /** All of them, youngest first. */
  list(): Promise<TuneRunSummary[]>;
  /** Of runs that are kept: their requests are nobody's workload. */
  keyIds(): Promise<ReadonlySet<string>>;
  /** At a start: what was under way has ended with the server. Resolves to how many. */
  endUnfinished(reason: string, at: Date): Promise<number>;
}
