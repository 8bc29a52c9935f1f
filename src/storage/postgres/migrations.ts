// The tables of the database, brought up to date: numbered steps, forward only, one at a time whichever processes start
// at once. What a step was stays as it is once it was released; the next change is the next number. Each says which releases go on
// beside it: an earlier one starts on later tables if they let it, and a step that lets none wait for their processes' end.

import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { StorageError } from '../store.js';
import { shownAddress } from './address.js';
import { connectionOptions } from './database.js';
import type { DatabaseSettings, Queryable } from './database.js';
import { isAnswer, isConflict, isLockTimeout, reasonOf } from './failures.js';
import { ALIVE, LEASE_S } from './process-lease.js';
import { MIGRATIONS } from './migrations/all.js';
import type { Migration } from './migrations/migration.js';

/** Of the advisory lock under which tables are changed: any number, but always this one. */
const LOCK = 7_011_423_001;
/** How long another process may take with it. */
const LOCK_MS = 120_000;
/** How long a step waits for tables that requests are using, while all that come later wait behind it: for all of them together, since
 *  it keeps those it has. Well under the second after which PostgreSQL looks for transactions that wait for one another
 *  (deadlock_timeout): it is the step that gives way, and no request. */
const TABLE_LOCK_MS = 250;
/** What each statement has of it at least, however long those before took. */
const LEAST_LOCK_MS = 25;
/** Between two tries of a step that gave way, so that what waited behind it gets through. */
const NEXT_TRY_MS = 250;
const OLDEST_SERVER = 130_000;
/** From this version on the table of versions says which releases go on beside each. */
const SAYS_OLDEST = 7;

/** The version of the tables that this release reads. */
export const DATABASE_VERSION = MIGRATIONS.length;

/**
 * Makes the tables, or brings them to `upTo` of `steps`, where they are not ahead of it. Throws StorageError that names the database
 * and what is wrong with it: it cannot be reached, does not let us in, is no PostgreSQL that we know, was written by a later release
 * that ours cannot work beside, or is in use by processes that could not work beside ours.
 */
export async function migrate(
  settings: DatabaseSettings,
  upTo = DATABASE_VERSION,
  steps: readonly Migration[] = MIGRATIONS,
): Promise<void> {
  const client = new pg.Client({
    ...connectionOptions(settings),
    statement_timeout: LOCK_MS,
    query_timeout: LOCK_MS + 1_000,
  });
  client.on('error', () => undefined); // what is under way fails with it
  const address = shownAddress(settings.url);
  try {
    await client.connect();
    await bringUpToDate(client, address, upTo, steps);
  } catch (error) {
    if (error instanceof StorageError) throw error;
    const what = isAnswer(error) ? 'cannot be used' : 'cannot be reached';
    throw new StorageError(`The database ${address} (state.url) ${what}: ${reasonOf(error)}.`, error);
  } finally {
    await client.end().catch(() => undefined);
  }
}

async function bringUpToDate(
  client: pg.Client,
  address: string,
  upTo: number,
  steps: readonly Migration[],
): Promise<void> {
  const {
    rows: [server],
  } = await client.query<{ version: number; encoding: string; standby: boolean }>(
    "SELECT current_setting('server_version_num')::int AS version, current_setting('server_encoding') AS encoding, pg_is_in_recovery() AS standby",
  );
  if (server !== undefined && server.version < OLDEST_SERVER)
    throw new StorageError(
      `The database ${address} is of PostgreSQL ${Math.floor(server.version / 10_000)}; 13 or newer is needed.`,
    );
  if (server?.encoding !== 'UTF8')
    throw new StorageError(
      `The database ${address} has the encoding ${server?.encoding ?? 'none'}; UTF8 is needed: createdb --encoding=UTF8 --template=template0.`,
    );
  if (server.standby)
    throw new StorageError(`The database ${address} is a standby, which takes no writes; name the primary.`);
  await client.query('SELECT pg_advisory_lock($1)', [LOCK]); // the connection's: gone with it
  await client.query(
    'CREATE TABLE IF NOT EXISTS monolith_versions (version integer PRIMARY KEY, what text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())',
  );
  const {
    rows: [{ at = 0 } = {}],
  } = await client.query<{ at: number }>('SELECT coalesce(max(version), 0)::int AS at FROM monolith_versions');
  if (at > steps.length) {
    const {
      rows: [{ oldest = at } = {}],
    } = await client.query<{ oldest: number }>('SELECT max(oldest)::int AS oldest FROM monolith_versions');
    if (oldest <= steps.length) return;
    throw new StorageError(
      `The database ${address} has version ${at}, which takes releases from ${oldest} on; this release reads ${steps.length}. Use the release that wrote it, or another database.`,
    );
  }
  for (const [index, migration] of steps.entries()) {
    if (index + 1 <= at || index + 1 > upTo) continue;
    if (at > 0 && migration.oldest > at) await othersEnded(client, address, at, index + 1);
    await applyBesideRequests(client, index + 1, migration);
  }
}

/** Throws StorageError as long as processes of the release before are there, which the step would take the ground from. */
async function othersEnded(client: pg.Client, address: string, at: number, version: number): Promise<void> {
  const {
    rows: { length },
  } = await client.query(ALIVE);
  if (length === 0) return;
  throw new StorageError(
    `The database ${address} has version ${at} and is in use: ${length} ${length === 1 ? 'thread' : 'threads'} of processes of an earlier release, which cannot work beside version ${version}. End them, then start this one (a process that was killed counts for ${LEASE_S} seconds).`,
  );
}

/** Once this process can be seen to be there. Throws StorageError if a step that our release could not work beside was made in between. */
export async function stillTaken(database: Queryable): Promise<void> {
  const [{ oldest } = { oldest: 0 }] = await database.query<{ oldest: number }>(
    'SELECT max(oldest)::int AS oldest FROM monolith_versions',
  );
  if (oldest > DATABASE_VERSION)
    throw new StorageError(
      `The database (state.url) has been changed meanwhile for releases that read version ${oldest}; this one reads ${DATABASE_VERSION}.`,
    );
}

/** A step that gives way to requests, as often as it takes. */
async function applyBesideRequests(client: pg.Client, version: number, migration: Migration): Promise<void> {
  const givenUp = performance.now() + LOCK_MS;
  for (;;) {
    try {
      return await apply(client, version, migration);
    } catch (error) {
      if (!(isConflict(error) || isLockTimeout(error)) || performance.now() > givenUp) throw error;
    }
    await sleep(NEXT_TRY_MS);
  }
}

/** Whole or not at all. */
async function apply(client: pg.Client, version: number, { what, oldest, statements }: Migration): Promise<void> {
  await client.query('BEGIN');
  try {
    const until = performance.now() + TABLE_LOCK_MS;
    for (const statement of statements) {
      await client.query(`SET LOCAL lock_timeout = ${Math.max(LEAST_LOCK_MS, Math.ceil(until - performance.now()))}`);
      await client.query(statement);
    }
    if (version < SAYS_OLDEST)
      await client.query('INSERT INTO monolith_versions (version, what) VALUES ($1, $2)', [version, what]);
    else
      await client.query('INSERT INTO monolith_versions (version, what, oldest) VALUES ($1, $2, $3)', [
        version,
        what,
        oldest,
      ]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}
