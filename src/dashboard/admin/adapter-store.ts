// Storage port for LoRA adapters that operators have loaded at run time (see docs/internals/storage.md).

import type { AuditNote } from '../../accounts/audit.js';

/** An adapter. The server loads it again on every startup. */
export interface AdapterRow {
  /** Name of the adapter's base model. */
  readonly base: string;
  readonly name: string;
  /** Path with symbolic links resolved. It was inside `adapters.folder` when the adapter was loaded. */
  readonly path: string;
  readonly scale: number;
  /** When the operator loaded the adapter, in RFC 3339. */
  readonly addedAt: string;
}

export interface AdapterStore {
  /** Returns all adapters, keyed by public name (adapterId()) and sorted by it. */
  all(): Promise<ReadonlyMap<string, AdapterRow>>;
  /**
   * Adds an adapter and writes the audit entry in the same transaction. `check` receives the stored adapters. If it
   * throws, nothing is written.
   */
  add(
    id: string,
    row: AdapterRow,
    check: (there: ReadonlyMap<string, AdapterRow>) => void,
    note: AuditNote,
  ): Promise<void>;
  /** Removes an adapter and the operators' settings for its name. Resolves to false if the adapter is unknown. */
  remove(id: string, note: AuditNote): Promise<boolean>;
}
