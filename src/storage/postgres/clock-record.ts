// The wall clock stored in a database that several servers share: the database's own clock, by which all servers sweep.

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
