// Port for the LoRA adapters that operators have loaded at run time (see docs/internals/storage.md).

import type { AuditNote } from '../../accounts/audit.js';

/** One adapter, which every start loads again. */
export interface AdapterRow {
  /** Name of the model to which it applies. */
  readonly base: string;
  readonly name: string;
  /** Path without symbolic links, in `adapters.folder` at the time of the request. */
  readonly path: string;
  readonly scale: number;
  /** RFC 3339. */
  readonly addedAt: string;
}

export interface AdapterStore {
  /** Keyed by public name (adapterId()) and sorted by it. */
  all(): Promise<ReadonlyMap<string, AdapterRow>>;
  /**
   * Adds an adapter, and writes the audit entry in the same transaction. `check` receives the current adapters; if it
   * throws, nothing changes.
   */
  add(
    id: string,
    row: AdapterRow,
    check: (there: ReadonlyMap<string, AdapterRow>) => void,
    note: AuditNote,
  ): Promise<void>;
  /** Removes an adapter and the settings that operators have made for its name. Resolves to whether it existed. */
  remove(id: string, note: AuditNote): Promise<boolean>;
}
