// Opens stored responses in a real PostgreSQL; openResponses() is the LMDB counterpart.
import { openPool, type Database } from '../../src/storage/postgres/database.js';
import { migrate } from '../../src/storage/postgres/migrations.js';
import { openPostgresResponses } from '../../src/storage/postgres/responses/open-response-store.js';
import { ProcessLease } from '../../src/storage/postgres/process-lease.js';
import type { ResponseStore } from '../../src/storage/response-store.js';
import type { Postgres } from '../support/postgres.js';
import { EMPTY, START } from './records.js';
import type { OpenedResponses } from './records.js';

export interface OpenedPostgres extends OpenedResponses {
  database: Database;
  lease: ProcessLease;
  url: string;
}

/** `url`: a database that another process already uses; if not given, a new one is created. */
export async function openPostgres(postgres: Postgres, url?: string, clock = { now: START }): Promise<OpenedPostgres> {
  const own = url ?? (await postgres.create());
  const settings = { url: own, connections: 6, timeout_ms: 60_000 };
  await migrate(settings);
  const errors: unknown[] = [];
  const begin = async (): Promise<{ database: Database; lease: ProcessLease; responses: ResponseStore }> => {
    const database = openPool(settings);
    const lease = await ProcessLease.open(database);
    return {
      database,
      lease,
      responses: openPostgresResponses(
        database,
        lease,
        { retention_days: 30 },
        { now: () => clock.now, onError: (error) => errors.push(error) },
      ),
    };
  };
  const end = async (): Promise<void> => {
    await opened.responses.close();
    await opened.lease.close();
    await opened.database.close();
  };
  const count = async (table: string): Promise<number> =>
    (await postgres.ask<{ n: string }>(own, `SELECT count(*) AS n FROM ${table}`)).map(({ n }) => Number(n))[0] ?? 0;
  const opened: OpenedPostgres = {
    ...(await begin()),
    clock,
    url: own,
    rows: async () =>
      Object.fromEntries(
        await Promise.all(
          Object.keys(EMPTY).map(async (name) => [name, await count(name.replaceAll('-', '_'))] as const),
        ),
      ),
    noted: () => count('response_holds'),
    async reopen() {
      await end();
      Object.assign(opened, await begin());
    },
    async close() {
      await end();
      if (errors.length > 0) throw new Error('a sweep failed', { cause: errors[0] });
    },
  };
  return opened;
}
