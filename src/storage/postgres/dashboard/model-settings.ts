// Implements ModelSettingsStore on the shared database's settings and the audit log.

import type { AuditNote } from '../../../accounts/audit.js';
import { noteSetting } from '../accounts/audit-log.js';
import type { AccountWork } from '../accounts/work.js';
import { putSetting, settingOf, settingsOfKind } from '../setting-rows.js';
import type { ModelRow, ModelSettingsStore } from '../../../dashboard/admin/model-settings-store.js';

export class PostgresModelSettings implements ModelSettingsStore {
  constructor(private readonly work: AccountWork) {}

  all(): Promise<ReadonlyMap<string, ModelRow>> {
    return settingsOfKind<ModelRow>(this.work.sql, 'model');
  }

  change(model: string, change: (before: ModelRow) => ModelRow, note: AuditNote): Promise<void> {
    return this.work.change(async (sql) => {
      await putSetting(sql, 'model', model, change((await settingOf<ModelRow>(sql, 'model', model)) ?? {}));
      await noteSetting(sql, null, note, model);
    });
  }
}
