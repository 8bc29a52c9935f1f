// Port for tuning runs, which are stored with their progress while they run (see docs/internals/storage.md).

import type { TuneRun, TuneRunSummary } from '../../shared/wire/tuning.js';

/** Maximum number of stored runs. The oldest are deleted first. */
export const MAX_RUNS = 50;

export interface TuneRunStore {
  /**
   * Stores the whole run. If there are more than MAX_RUNS, deletes the oldest finished ones. `keyId`: the API key that
   * the run uses, if the server created it.
   */
  put(run: TuneRun, keyId: string | null): Promise<void>;
  get(id: string): Promise<TuneRun | null>;
  /** All runs, newest first. */
  list(): Promise<TuneRunSummary[]>;
  /** The API keys that the stored runs used. Requests made with them must not be used as a workload. */
  keyIds(): Promise<ReadonlySet<string>>;
  /**
   * Called at startup. Marks runs that were in progress when the server stopped as ended. Resolves to the number of
   * such runs.
   */
  endUnfinished(reason: string, at: Date): Promise<number>;
}
