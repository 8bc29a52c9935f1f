// Implements ServedModelStore on the shared database's settings and the audit log.

import type { AuditNote } from '../../../accounts/audit.js';
import { noteSetting } from '../accounts/audit-log.js';
import type { AccountWork } from '../accounts/work.js';
import { putSetting, removeSetting, settingsOfKind } from '../setting-rows.js';
import type { ServedModelRow, ServedModelStore } from '../../../dashboard/admin/served-model-store.js';

export class PostgresServedModels implements ServedModelStore {
  constructor(private readonly work: AccountWork) {}

  all(): Promise<ReadonlyMap<string, ServedModelRow>> {
    return settingsOfKind<ServedModelRow>(this.work.sql, 'served-model');
  }

  add(
    name: string,
    row: ServedModelRow,
    check: (there: ReadonlyMap<string, ServedModelRow>) => void,
    note: AuditNote,
  ): Promise<void> {
    return this.work.change(async (sql) => {
      check(await settingsOfKind<ServedModelRow>(sql, 'served-model'));
      await putSetting(sql, 'served-model', name, row);
      await noteSetting(sql, null, note, name);
    });
  }

  remove(name: string, note: AuditNote): Promise<boolean> {
    return this.work.change(async (sql) => {
      if (!(await removeSetting(sql, 'served-model', name))) return false;
      await removeSetting(sql, 'model', name);
      await noteSetting(sql, null, note, name);
      return true;
    });
  }
}
