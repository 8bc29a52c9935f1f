// Implements AdapterStore on the shared database's settings and the audit log.

import type { AuditNote } from '../../../accounts/audit.js';
import { noteSetting } from '../accounts/audit-log.js';
import type { AccountWork } from '../accounts/work.js';
import { putSetting, removeSetting, settingsOfKind } from '../setting-rows.js';
import type { AdapterRow, AdapterStore } from '../../../dashboard/admin/adapter-store.js';

export class PostgresAdapters implements AdapterStore {
  constructor(private readonly work: AccountWork) {}

  all(): Promise<ReadonlyMap<string, AdapterRow>> {
    return settingsOfKind<AdapterRow>(this.work.sql, 'adapter');
  }

  add(
    id: string,
    row: AdapterRow,
    check: (there: ReadonlyMap<string, AdapterRow>) => void,
    note: AuditNote,
  ): Promise<void> {
    return this.work.change(async (sql) => {
      check(await settingsOfKind<AdapterRow>(sql, 'adapter'));
      await putSetting(sql, 'adapter', id, row);
      await noteSetting(sql, null, note, id);
    });
  }

  remove(id: string, note: AuditNote): Promise<boolean> {
    return this.work.change(async (sql) => {
      if (!(await removeSetting(sql, 'adapter', id))) return false;
      await removeSetting(sql, 'model', id);
      await noteSetting(sql, null, note, id);
      return true;
    });
  }
}
