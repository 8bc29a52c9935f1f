// Models that operators have served beside those of the settings, as they are kept: a port, see docs/internals/storage.md.

import type { AuditNote } from '../../accounts/audit.js';

/** One of them: declared, as a setting would be. */
export interface ServedModelRow {
  /** OWNER/REPO:QUANTIZATION[@REVISION], in the hub's cache. */
  readonly source: string;
  /** Where that was when it was declared. */
  readonly path: string;
  readonly displayName: string;
  /** Its memory is given back when nobody has asked for so long; null: when another model wants it. */
  readonly idleMinutes: number | null;
  /** RFC 3339. */
  readonly addedAt: string;
}

export interface ServedModelStore {
  /** By name, in the order of names. */
  all(): Promise<ReadonlyMap<string, ServedModelRow>>;
  /** Declares one; what the audit log says stands or falls with it. `check` may throw, given those there are by then: then nothing is changed. */
  add(
    name: string,
    row: ServedModelRow,
    check: (there: ReadonlyMap<string, ServedModelRow>) => void,
    note: AuditNote,
  ): Promise<void>;
  /** Takes one away, and what was decided of its name with it. Resolves to whether it was there. */
  remove(name: string, note: AuditNote): Promise<boolean>;
}
