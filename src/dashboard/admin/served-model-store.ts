// Port for models that operators serve in addition to the configured ones (see docs/internals/storage.md).

import type { AuditNote } from '../../accounts/audit.js';

/** One declared model. */
export interface ServedModelRow {
  /** OWNER/REPO:QUANTIZATION[@REVISION], in the hub's cache. */
  readonly source: string;
  /** Path of the file at the time of the declaration. */
  readonly path: string;
  readonly displayName: string;
  /** Unloaded after this many minutes without requests; null: only when another model needs the memory. */
  readonly idleMinutes: number | null;
  /** RFC 3339. */
  readonly addedAt: string;
}

export interface ServedModelStore {
  /** Keyed and sorted by name. */
  all(): Promise<ReadonlyMap<string, ServedModelRow>>;
  /**
   * Declares a model, and writes the audit entry in the same transaction. `check` receives the current models; if it
   * throws, nothing changes.
   */
  add(
    name: string,
    row: ServedModelRow,
    check: (there: ReadonlyMap<string, ServedModelRow>) => void,
    note: AuditNote,
  ): Promise<void>;
  /**
   * Removes a model and the settings that operators have stored for its name. Resolves to whether the model
   * existed.
   */
  remove(name: string, note: AuditNote): Promise<boolean>;
}
