// Reads and confirms the stored wall-clock time for the command line. Works while servers run, because they read the
// stored time every minute.

import type { Config } from '../config/settings.js';
import { MAX_AHEAD_MS } from '../storage/clock-guard.js';
import type { ClockRecords } from '../storage/clock-guard.js';
import { LmdbClockRecords } from '../storage/lmdb/clock-record.js';
import { existingDatabase, openStore } from '../storage/lmdb/lmdb-store.js';
import { PostgresClockRecords } from '../storage/postgres/clock-record.js';
import { openPool } from '../storage/postgres/database.js';
import { DatabaseClock } from '../storage/postgres/database-clock.js';
import { migrateExisting } from '../storage/postgres/migrations.js';

type Where = Pick<Config, 'data_dir' | 'database'>;

/** Returns null if expired data is being erased normally. Rejects with StorageError. */
export function heldSince(config: Where): Promise<{ now: Date; trusted: Date } | null> {
  return withRecords(config, async (records) => {
    const record = await records.read();
    const now = records.now();
    if (record === null || (record.heldMs === null && now - record.wall <= MAX_AHEAD_MS)) return null;
    return { now: new Date(now), trusted: new Date(record.wall) };
  });
}

/** Resolves to the time that servers trust from this call on. Rejects with StorageError. */
export function confirmClock(config: Where): Promise<Date> {
  return withRecords(config, async (records) => {
    const wall = records.now();
    await records.write({ wall, heldMs: null });
    return new Date(wall);
  });
}

async function withRecords<T>(
  { data_dir: folder, database: address }: Where,
  work: (records: ClockRecords) => Promise<T>,
): Promise<T> {
  if (address.url === null) {
    existingDatabase(folder);
    const store = await openStore(folder);
    try {
      return await work(new LmdbClockRecords(store));
    } finally {
      await store.close();
    }
  }
  const settings = { ...address, url: address.url, connections: 1 };
  await migrateExisting(settings);
  const database = openPool(settings);
  try {
    return await work(new PostgresClockRecords(database, await DatabaseClock.measured(database)));
  } finally {
    await database.close();
  }
}
