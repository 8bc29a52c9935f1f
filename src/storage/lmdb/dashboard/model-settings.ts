// Implements ModelSettingsStore on the `model-settings` table, keyed by model, and on the audit log.

import type { AuditNote } from '../../../accounts/audit.js';
import type { LmdbAuditLog } from '../accounts/audit-log.js';
import type { Store, Table } from '../../store.js';
import type { ModelRow, ModelSettingsStore } from '../../../dashboard/admin/model-settings-store.js';

export class LmdbModelSettings implements ModelSettingsStore {
  readonly #rows: Table<ModelRow>;

  constructor(
    private readonly store: Store,
    private readonly audit: Pick<LmdbAuditLog, 'note'>,
  ) {
    this.#rows = store.table('model-settings');
  }

  async all(): Promise<ReadonlyMap<string, ModelRow>> {
    this.store.refresh(); // another thread may have just reported a change, so make its commit visible
    return new Map([...this.#rows.range()].map(({ key, value }) => [key as string, value]));
  }

  change(model: string, change: (before: ModelRow) => ModelRow, { actor, action, detail }: AuditNote): Promise<void> {
    return this.store.transaction(() => {
      void this.#rows.put(model, change(this.#rows.get(model) ?? {}));
      void this.audit.note(null, actor, action, model, detail);
    });
  }
}
