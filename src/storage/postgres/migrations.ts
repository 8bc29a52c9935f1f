// The tables of the database, brought up to date: numbered steps, forward only, one at a time whichever processes start
// at once. What a step was stays as it is once it was released; the next change is the next number.

import pg from 'pg';
import { StorageError } from '../store.js';
import { shownAddress } from './address.js';
import { connectionOptions } from './database.js';
import type { DatabaseSettings } from './database.js';
import { isAnswer, reasonOf } from './failures.js';
import { MIGRATIONS } from './migrations/all.js';
import type { Migration } from './migrations/migration.js';

/** Of the advisory lock under which tables are changed: any number, but always this one. */
const LOCK = 7_011_423_001;
/** How long another process may take with it. */
const LOCK_MS = 120_000;
const OLDEST_SERVER = 130_000;

/** The version of the tables that this release reads. */
export const DATABASE_VERSION = MIGRATIONS.length;

/**
 * Makes the tables, or brings them to `upTo`. Throws StorageError that names the database and what is wrong with it:
 * it cannot be reached, does not let us in, is no PostgreSQL that we know, or was written by a later release.
 */
export async function migrate(settings: DatabaseSettings, upTo = DATABASE_VERSION): Promise<void> {
  const client = new pg.Client({ ...connectionOptions(settings), statement_timeout: LOCK_MS, query_timeout: LOCK_MS + 1_000 });
  client.on('error', () => undefined);   // what is under way fails with it
  const address = shownAddress(settings.url);
  try {
    await client.connect();
    await bringUpToDate(client, address, upTo);
  } catch (error) {
    if (error instanceof StorageError) throw error;
    const what = isAnswer(error) ? 'cannot be used' : 'cannot be reached';
    throw new StorageError(`The database ${address} (state.url) ${what}: ${reasonOf(error)}.`, error);
  } finally {
    await client.end().catch(() => undefined);
  }
}

async function bringUpToDate(client: pg.Client, address: string, upTo: number): Promise<void> {
  const { rows: [server] } = await client.query<{ version: number; encoding: string; standby: boolean }>(
    'SELECT current_setting(\'server_version_num\')::int AS version, current_setting(\'server_encoding\') AS encoding, pg_is_in_recovery() AS standby');
  if (server !== undefined && server.version < OLDEST_SERVER) throw new StorageError(`The database ${address} is of PostgreSQL ${Math.floor(server.version / 10_000)}; 13 or newer is needed.`);
  if (server?.encoding !== 'UTF8') throw new StorageError(`The database ${address} has the encoding ${server?.encoding ?? 'none'}; UTF8 is needed: createdb --encoding=UTF8 --template=template0.`);
  if (server.standby) throw new StorageError(`The database ${address} is a standby, which takes no writes; name the primary.`);
  await client.query('SELECT pg_advisory_lock($1)', [LOCK]);   // the connection's: gone with it
  await client.query('CREATE TABLE IF NOT EXISTS monolith_versions (version integer PRIMARY KEY, what text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())');
  const { rows: [{ at = 0 } = {}] } = await client.query<{ at: number }>('SELECT coalesce(max(version), 0)::int AS at FROM monolith_versions');
  if (at > DATABASE_VERSION) throw new StorageError(`The database ${address} has version ${at}; this release reads ${DATABASE_VERSION}. Use the release that wrote it, or another database.`);
  for (const [index, migration] of MIGRATIONS.entries()) if (index + 1 > at && index + 1 <= upTo) await apply(client, index + 1, migration);
}

/** Whole or not at all. */
async function apply(client: pg.Client, version: number, { what, statements }: Migration): Promise<void> {
  await client.query('BEGIN');
  try {
    for (const statement of statements) await client.query(statement);
    await client.query('INSERT INTO monolith_versions (version, what) VALUES ($1, $2)', [version, what]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}
