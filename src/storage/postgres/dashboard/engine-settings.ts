// Implements EngineSettingsStore on the shared database's settings and the audit log.

import type { AuditNote } from '../../../accounts/audit.js';
import { noteSetting } from '../accounts/audit-log.js';
import type { AccountWork } from '../accounts/work.js';
import { putSetting, settingOf, settingsOfKind } from '../setting-rows.js';
import { changedValues } from '../../../dashboard/admin/engine-settings-store.js';
import type {
  EngineChange,
  EngineSettingsStore,
  EngineValues,
} from '../../../dashboard/admin/engine-settings-store.js';

export class PostgresEngineSettings implements EngineSettingsStore {
  constructor(private readonly work: AccountWork) {}

  all(): Promise<ReadonlyMap<string, EngineValues>> {
    return settingsOfKind<EngineValues>(this.work.sql, 'engine');
  }

  async get(engine: string): Promise<EngineValues> {
    return (await settingOf<EngineValues>(this.work.sql, 'engine', engine)) ?? {};
  }

  change(engine: string, change: EngineChange, note: AuditNote | null): Promise<EngineValues> {
    return this.work.change(async (sql) => {
      const next = changedValues((await settingOf<EngineValues>(sql, 'engine', engine)) ?? {}, change);
      await putSetting(sql, 'engine', engine, next);
      await noteSetting(sql, null, note, engine);
      return next;
    });
  }
}
