// Runs a test with a real server on each store: LMDB, and PostgreSQL with Redis.

import t, { type Test } from 'tap';
import { leaveOutIf } from './needed-programs.js';
import { startPostgres, withoutPostgres } from './postgres.js';
import { startRedis, withoutRedis } from './redis.js';

/** `work` gets the settings that select the store, with an empty database. */
export function onBothStores(work: (t: Test, store: object) => Promise<unknown>): void {
  t.test('LMDB', async (t) => {
    await work(t, {});
  });
  t.test('PostgreSQL', async (t) => {
    leaveOutIf(t, withoutPostgres, withoutRedis);
    const postgres = await startPostgres();
    t.teardown(() => postgres.close());
    const redis = await startRedis();
    t.teardown(() => redis.stop());
    await work(t, { database: { url: postgres.url }, redis: { url: redis.url } });
  });
}
