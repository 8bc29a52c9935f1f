// Implements ServedModelStore on the `served-models` and `model-settings` tables, keyed by name, and on the audit log.

import type { AuditNote } from '../../../accounts/audit.js';
import type { LmdbAuditLog } from '../accounts/audit-log.js';
import type { Store, Table } from '../../store.js';
import type { ModelRow } from '../../../dashboard/admin/model-settings-store.js';
import type { ServedModelRow, ServedModelStore } from '../../../dashboard/admin/served-model-store.js';

export class LmdbServedModels implements ServedModelStore {
  readonly #rows: Table<ServedModelRow>;
  readonly #decided: Table<ModelRow>;

  constructor(
    private readonly store: Store,
    private readonly audit: Pick<LmdbAuditLog, 'note'>,
  ) {
    this.#rows = store.table('served-models');
    this.#decided = store.table('model-settings');
  }

  async all(): Promise<ReadonlyMap<string, ServedModelRow>> {
    this.store.refresh(); // another thread may have just reported a change, so make its commit visible
    return this.#all();
  }

  add(
    name: string,
    row: ServedModelRow,
    check: (there: ReadonlyMap<string, ServedModelRow>) => void,
    { actor, action, detail }: AuditNote,
  ): Promise<void> {
    return this.store.transaction(() => {
      check(this.#all());
      void this.#rows.put(name, row);
      void this.audit.note(null, actor, action, name, detail);
    });
  }

  remove(name: string, { actor, action, detail }: AuditNote): Promise<boolean> {
    return this.store.transaction(() => {
      if (this.#rows.get(name) === undefined) return false;
      void this.#rows.remove(name);
      void this.#decided.remove(name);
      void this.audit.note(null, actor, action, name, detail);
      return true;
    });
  }

  #all(): Map<string, ServedModelRow> {
    return new Map([...this.#rows.range()].map(({ key, value }) => [key as string, value]));
  }
}
