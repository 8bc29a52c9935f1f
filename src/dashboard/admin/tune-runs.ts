// Port for tuning runs, including running ones with their progress (see docs/internals/storage.md).

import type { TuneRun, TuneRunSummary } from '../../shared/wire/tuning.js';

/** The oldest are deleted beyond this number. */
export const MAX_RUNS = 50;

export interface TuneRunStore {
  /**
   * Writes the complete run. Beyond MAX_RUNS, the oldest finished runs are deleted. `keyId`: the API key that the run
   * uses, if the server created it.
   */
  put(run: TuneRun, keyId: string | null): Promise<void>;
  get(id: string): Promise<TuneRun | null>;
  /** All runs, newest first. */
  list(): Promise<TuneRunSummary[]>;
  /** API keys of the stored runs, whose requests must not be used as a workload. */
  keyIds(): Promise<ReadonlySet<string>>;
  /** At startup: marks runs as ended that were in progress when the server stopped. Resolves to their number. */
  endUnfinished(reason: string, at: Date): Promise<number>;
}
