// What operators decided of models, as it is kept: a port, see docs/internals/storage.md.

import type { AuditNote } from '../../accounts/audit.js';
import type { LifecycleState } from '../../generation/model-lifecycle.js';

/** Undefined: as the catalog and the settings have it. */
export interface ModelRow {
  lifecycle?: LifecycleState | undefined;
  deprecatedAt?: string | null | undefined;
  retiresAt?: string | null | undefined;
  successor?: string | null | undefined;
  /** Its memory was given back: it answers 503 until it is loaded again. */
  unloaded?: boolean | undefined;
}

export interface ModelSettingsStore {
  /** Of every model that something was decided of, by its name. */
  all(): Promise<ReadonlyMap<string, ModelRow>>;
  /**
   * What was decided becomes what `change` makes of it; what the audit log says stands or falls with it. `change` may be
   * called more than once; what it throws rejects, and nothing is changed.
   */
  change(model: string, change: (before: ModelRow) => ModelRow, note: AuditNote): Promise<void>;
}
