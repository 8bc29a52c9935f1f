// Implements EngineSettingsStore on the `engine-settings` table, keyed by engine, and on the audit log.

import type { AuditNote } from '../../../accounts/audit.js';
import type { LmdbAuditLog } from '../accounts/audit-log.js';
import type { Store, Table } from '../../store.js';
import { changedValues } from '../../../dashboard/admin/engine-settings-store.js';
import type {
  EngineChange,
  EngineSettingsStore,
  EngineValues,
} from '../../../dashboard/admin/engine-settings-store.js';

export class LmdbEngineSettings implements EngineSettingsStore {
  readonly #rows: Table<EngineValues>;

  constructor(
    private readonly store: Store,
    private readonly audit: Pick<LmdbAuditLog, 'note'>,
  ) {
    this.#rows = store.table('engine-settings');
  }

  async all(): Promise<ReadonlyMap<string, EngineValues>> {
    return new Map([...this.#rows.range()].map(({ key, value }) => [key as string, value]));
  }

  async get(engine: string): Promise<EngineValues> {
    return this.#rows.get(engine) ?? {};
  }

  change(engine: string, change: EngineChange, note: AuditNote | null): Promise<EngineValues> {
    return this.store.transaction(() => {
      const next = changedValues(this.#rows.get(engine) ?? {}, change);
      void this.#rows.put(engine, next);
      if (note !== null) void this.audit.note(null, note.actor, note.action, engine, note.detail);
      return next;
    });
  }
}
