// The stored wall-clock time for a database that several servers share. It is taken from the database's own clock,
// which all servers use for their sweeps.

import type { ClockRecord, ClockRecords } from '../clock-guard.js';
import type { Database } from './database.js';
import type { DatabaseClock } from './database-clock.js';
import { putSetting, settingOf } from './setting-rows.js';

export class PostgresClockRecords implements ClockRecords {
  readonly now: () => number;

  constructor(
    private readonly database: Database,
    clock: Pick<DatabaseClock, 'now'>,
  ) {
    this.now = clock.now;
  }

  async read(): Promise<ClockRecord | null> {
    return (await settingOf<ClockRecord>(this.database, 'clock', 'all')) ?? null;
  }

  write(record: ClockRecord): Promise<void> {
    return putSetting(this.database, 'clock', 'all', record);
  }
}
