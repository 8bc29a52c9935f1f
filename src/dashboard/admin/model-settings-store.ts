// Port for model settings changed by operators (see docs/internals/storage.md).

import type { AuditNote } from '../../accounts/audit.js';
import type { LifecycleState } from '../../generation/model-deprecation.js';

/** If undefined, the catalog and the configuration apply. */
export interface ModelRow {
  lifecycle?: LifecycleState | undefined;
  deprecatedAt?: string | null | undefined;
  retiresAt?: string | null | undefined;
  successor?: string | null | undefined;
  /** Whether an operator has unloaded the model. If so, requests for it get a 503 until it is loaded again. */
  unloaded?: boolean | undefined;
}

export interface ModelSettingsStore {
  /** All models with stored settings, by name. */
  all(): Promise<ReadonlyMap<string, ModelRow>>;
  /**
   * Replaces a model's settings with the result of `change`, and writes the audit entry in the same transaction.
   * `change` may be called more than once. If it throws, this rejects and nothing changes.
   */
  change(model: string, change: (before: ModelRow) => ModelRow, note: AuditNote): Promise<void>;
}
