// PostgreSQL databases for storage tests. Each database is new, has all tables, and is dropped when its test ends.

import type { Test } from 'tap';
import { openPool, type Database } from '../../src/storage/postgres/database.js';
import { migrate } from '../../src/storage/postgres/migrations.js';
import { startPostgres, type Postgres } from './postgres.js';

/** Starts a PostgreSQL server that stops when the test ends. */
export async function postgresFor(t: Test): Promise<Postgres> {
  const postgres = await startPostgres();
  t.teardown(() => postgres.close());
  return postgres;
}

export async function databaseFor(t: Test, postgres: Postgres): Promise<Database> {
  const settings = { url: await postgres.create(), connections: 8, timeout_ms: 10_000 };
  await migrate(settings);
  const database = openPool(settings);
  t.teardown(() => database.close());
  return database;
}
