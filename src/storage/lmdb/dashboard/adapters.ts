// Implements AdapterStore on the `adapters` and `model-settings` tables, keyed by public name, and on the audit log.

import type { AuditNote } from '../../../accounts/audit.js';
import type { LmdbAuditLog } from '../accounts/audit-log.js';
import type { Store, Table } from '../../store.js';
import type { ModelRow } from '../../../dashboard/admin/model-settings-store.js';
import type { AdapterRow, AdapterStore } from '../../../dashboard/admin/adapter-store.js';

export class LmdbAdapters implements AdapterStore {
  readonly #rows: Table<AdapterRow>;
  readonly #decided: Table<ModelRow>;

  constructor(
    private readonly store: Store,
    private readonly audit: Pick<LmdbAuditLog, 'note'>,
  ) {
    this.#rows = store.table('adapters');
    this.#decided = store.table('model-settings');
  }

  async all(): Promise<ReadonlyMap<string, AdapterRow>> {
    this.store.refresh(); // another thread may have just reported a change, so make its commit visible
    return this.#all();
  }

  add(
    id: string,
    row: AdapterRow,
    check: (there: ReadonlyMap<string, AdapterRow>) => void,
    { actor, action, detail }: AuditNote,
  ): Promise<void> {
    return this.store.transaction(() => {
      check(this.#all());
      void this.#rows.put(id, row);
      void this.audit.note(null, actor, action, id, detail);
    });
  }

  remove(id: string, { actor, action, detail }: AuditNote): Promise<boolean> {
    return this.store.transaction(() => {
      if (this.#rows.get(id) === undefined) return false;
      void this.#rows.remove(id);
      void this.#decided.remove(id);
      void this.audit.note(null, actor, action, id, detail);
      return true;
    });
  }

  #all(): Map<string, AdapterRow> {
    return new Map([...this.#rows.range()].map(({ key, value }) => [key as string, value]));
  }
}
