// Tests usage in a real PostgreSQL: runs the tests that every UsageStore must pass, and checks that sums are exact if a
// connection is lost after a commit.
import t, { type Test } from 'tap';
import type { Database, Queryable } from '../../src/storage/postgres/database.js';
import { unavailable } from '../../src/storage/postgres/failures.js';
import { PostgresUsageStore } from '../../src/storage/postgres/usage/usage-store.js';
import { databaseFor, postgresFor } from '../support/databases.js';
import { leaveOutIf } from '../support/needed-programs.js';
import { withoutPostgres } from '../support/postgres.js';
import { latencyTests } from './latency-reports.js';
import { finished, NOW, query, usageStoreTests } from './usage-store.js';

t.setTimeout(300_000); // the machine may be busy

leaveOutIf(t, withoutPostgres);
const postgres = await postgresFor(t);
const open = async (t: Test): Promise<PostgresUsageStore> => new PostgresUsageStore(await databaseFor(t, postgres));

usageStoreTests(open);
latencyTests(open);

t.test('a batch whose commit was not confirmed is counted only once, and a lost batch is written again', async (t) => {
  const real = await databaseFor(t, postgres);
  let lose: 'answer' | 'request' | null = null;
  // A database connection that can be lost before a transaction is executed, or after it is executed but before its
  // result arrives.
  const database: Database = {
    address: real.address,
    load: () => real.load(),
    close: () => real.close(),
    query: (text, values) => real.query(text, values),
    execute: (text, values) => real.execute(text, values),
    async transaction<T>(work: (sql: Queryable) => Promise<T>): Promise<T> {
      const lost = lose;
      lose = null;
      if (lost === 'request') throw unavailable(new Error('reset'));
      const result = await real.transaction(work);
      if (lost === 'answer') throw unavailable(new Error('reset'));
      return result;
    },
  };
  const store = new PostgresUsageStore(database);
  const entry = (requestId: string): { usage: ReturnType<typeof finished>; at: number } => ({
    usage: finished({ requestId }),
    at: NOW,
  });
  const [a, b, c, d] = ['req_a', 'req_b', 'req_c', 'req_d'].map(entry) as [
    ReturnType<typeof entry>,
    ReturnType<typeof entry>,
    ReturnType<typeof entry>,
    ReturnType<typeof entry>,
  ];
  lose = 'answer';
  await t.rejects(store.record([a, b]), { code: 'maintenance' });
  lose = 'request';
  await t.rejects(store.record([a, b, c]), { code: 'maintenance' });
  lose = 'answer';
  await t.rejects(store.record([a, b, c]), { code: 'maintenance' });
  await store.record([a, b, c, d]);
  await store.record([entry('req_e')]);
  t.match((await store.rows(query(), 10, null)).rows, [{ requests: 5, input_tokens: 500 }]);
  t.same(await store.monthTokens(['org_a'], '2026-11'), [550]);
});
