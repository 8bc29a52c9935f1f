// Upgrades the database's tables through numbered, forward-only migrations, one at a time even if several processes
// start concurrently. A released migration never changes; the next change gets the next number. Each migration declares
// which releases are compatible with it. An older release starts on newer tables if they are compatible; an
// incompatible migration waits until the processes of older releases have exited.

import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { MissingDatabase } from '../missing-database.js';
import { StorageError } from '../store.js';
import { driver } from './driver.js';
import { connectionOptions, shownAddress } from './database.js';
import type { DatabaseSettings, Queryable } from './database.js';
import { isAnswer, isConflict, isLockTimeout, reasonOf } from './failures.js';
import { ALIVE, LEASE_S } from './process-lease.js';
import type { Migration } from './migrations/migration.js';
import { processes } from './migrations/001-processes.js';
import { responses } from './migrations/002-responses.js';
import { accounts } from './migrations/003-accounts.js';
import { settings } from './migrations/004-settings.js';
import { usage } from './migrations/005-usage.js';
import { imports } from './migrations/006-imports.js';
import { releases } from './migrations/007-releases.js';
import { inviteMakers } from './migrations/008-invite-makers.js';
import { revokedKeys } from './migrations/009-revoked-keys.js';
import { requestsById } from './migrations/011-requests-by-id.js';
import { temporaryKeys } from './migrations/012-temporary-keys.js';
import { responsePreviews } from './migrations/013-response-previews.js';
import { keyAddresses } from './migrations/014-key-addresses.js';
import { serviceAccounts } from './migrations/015-service-accounts.js';
import { alerts } from './migrations/016-alerts.js';
import { conversations } from './migrations/017-conversations.js';
import { replays } from './migrations/018-replays.js';
import { files } from './migrations/019-files.js';
import { batches } from './migrations/020-batches.js';
import { completionsAndWebhooks } from './migrations/021-completions-and-webhooks.js';
import { clockSkew } from './migrations/010-clock-skew.js';

/**
 * All migrations in order; the first one creates version 1. Append only: released migrations must never be changed
 * or moved.
 */
export const MIGRATIONS: readonly Migration[] = [
  processes,
  responses,
  accounts,
  settings,
  usage,
  imports,
  releases,
  inviteMakers,
  revokedKeys,
  clockSkew,
  requestsById,
  temporaryKeys,
  responsePreviews,
  keyAddresses,
  serviceAccounts,
  alerts,
  conversations,
  replays,
  files,
  batches,
  completionsAndWebhooks,
];

/** ID of the advisory lock for changes to tables: arbitrary, but constant. */
const LOCK = 7_011_423_001;
/** How long to wait for another process that holds the lock. */
const LOCK_MS = 120_000;
/**
 * Maximum total time that a migration waits for tables in use by requests, while all later requests queue behind it.
 * Well below the one second after which PostgreSQL checks for deadlocks (deadlock_timeout), so that the migration gives
 * way, not a request.
 */
const TABLE_LOCK_MS = 250;
/** Minimum lock wait for each statement, regardless of how long the previous ones took. */
const MIN_LOCK_MS = 25;
/** Pause between two attempts at a migration, so that queued requests can run after it has given way. */
const NEXT_TRY_MS = 250;
const OLDEST_SERVER = 130_000;
/** The first table version with a version table that records the compatible releases of each version. */
const SAYS_OLDEST = 7;

/** The table version that this release requires. */
export const DATABASE_VERSION = MIGRATIONS.length;

/**
 * Creates the tables, or upgrades them to version `upTo` of `steps` unless they are newer. Throws a StorageError that
 * names the database and the problem: it is unreachable, denies access, is not a supported PostgreSQL version, was
 * written by a newer incompatible release, or is in use by processes that are incompatible with this release.
 */
export function migrate(
  settings: DatabaseSettings,
  upTo = DATABASE_VERSION,
  steps: readonly Migration[] = MIGRATIONS,
): Promise<void> {
  return withClient(settings, (client, address) => bringUpToDate(client, address, upTo, steps));
}

/** Like migrate(), but throws MissingDatabase if no server has created the tables. */
export function migrateExisting(settings: DatabaseSettings): Promise<void> {
  return withClient(settings, async (client, address) => {
    const {
      rows: [{ exists } = { exists: false }],
    } = await client.query<{ exists: boolean }>("SELECT to_regclass('monolith_versions') IS NOT NULL AS exists");
    if (!exists)
      throw new MissingDatabase(
        `The database ${address} (database.url) has no Monolith tables. Check --database; the first start of a server creates the tables.`,
      );
    await bringUpToDate(client, address, DATABASE_VERSION, MIGRATIONS);
  });
}

async function withClient(
  settings: DatabaseSettings,
  work: (client: pg.Client, address: string) => Promise<void>,
): Promise<void> {
  const client = new (driver().Client)({
    ...connectionOptions(settings),
    statement_timeout: LOCK_MS,
    query_timeout: LOCK_MS + 1_000,
  });
  client.on('error', () => undefined); // statements in progress fail when the connection does
  const address = shownAddress(settings.url);
  try {
    await client.connect();
    await work(client, address);
  } catch (error) {
    if (error instanceof StorageError) throw error;
    const what = isAnswer(error) ? 'cannot be used' : 'cannot be reached';
    throw new StorageError(`The database ${address} (database.url) ${what}: ${reasonOf(error)}.`, error);
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
      `The database ${address} runs PostgreSQL ${Math.floor(server.version / 10_000)}; version 13 or newer is required.`,
    );
  if (server?.encoding !== 'UTF8')
    throw new StorageError(
      `The database ${address} has the encoding ${server?.encoding ?? 'none'}; UTF8 is required: createdb --encoding=UTF8 --template=template0.`,
    );
  if (server.standby)
    throw new StorageError(`The database ${address} is a standby, which accepts no writes. Use the primary.`);
  await client.query('SELECT pg_advisory_lock($1)', [LOCK]); // a session-level lock, released along with the connection
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
      `The database ${address} has version ${at}, which requires releases of version ${oldest} or later; this release has version ${steps.length}. Use the release that wrote it, or another database.`,
    );
  }
  for (const [index, migration] of steps.entries()) {
    if (index + 1 <= at || index + 1 > upTo) continue;
    if (at > 0 && migration.oldest > at) await othersEnded(client, address, at, index + 1);
    await applyBesideRequests(client, index + 1, migration);
  }
}

/** Throws StorageError while processes of an older, incompatible release are running. */
async function othersEnded(client: pg.Client, address: string, at: number, version: number): Promise<void> {
  const {
    rows: { length },
  } = await client.query(ALIVE);
  if (length === 0) return;
  throw new StorageError(
    `The database ${address} has version ${at} and is in use by ${length} ${length === 1 ? 'thread' : 'threads'} of processes of an earlier release that cannot work with version ${version}. Stop them, then start this one (a killed process counts for ${LEASE_S} seconds).`,
  );
}

/**
 * Must be called once this process is registered. Throws StorageError if an incompatible migration ran in the
 * meantime.
 */
export async function stillTaken(database: Queryable): Promise<void> {
  const [{ oldest } = { oldest: 0 }] = await database.query<{ oldest: number }>(
    'SELECT max(oldest)::int AS oldest FROM monolith_versions',
  );
  if (oldest > DATABASE_VERSION)
    throw new StorageError(
      `In the meantime, the database (database.url) was upgraded for releases of version ${oldest} or later; this release has version ${DATABASE_VERSION}.`,
    );
}

/** Runs a migration that gives way to requests, retrying until it succeeds. */
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

/** Applies a migration in one transaction. */
async function apply(client: pg.Client, version: number, { what, oldest, statements }: Migration): Promise<void> {
  await client.query('BEGIN');
  try {
    const until = performance.now() + TABLE_LOCK_MS;
    for (const statement of statements) {
      await client.query(`SET LOCAL lock_timeout = ${Math.max(MIN_LOCK_MS, Math.ceil(until - performance.now()))}`);
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
