// Tests batches in a real PostgreSQL database.
import t from 'tap';
import { openPool } from '../../src/storage/postgres/database.js';
import { PostgresBatchStore } from '../../src/storage/postgres/batches/batch-store.js';
import { migrate } from '../../src/storage/postgres/migrations.js';
import { leaveOutIf } from '../support/needed-programs.js';
import { startPostgres, withoutPostgres } from '../support/postgres.js';
import { batchStoreTests, START_MS } from './batch-store.js';

t.setTimeout(300_000); // the machine may be busy

leaveOutIf(t, withoutPostgres);
const postgres = await startPostgres();
t.teardown(() => postgres.close());
const settings = { url: await postgres.create(), connections: 6, timeout_ms: 60_000 };
await migrate(settings);
const database = openPool(settings);
t.teardown(() => database.close());
const clock = { now: START_MS };

batchStoreTests({
  batches: new PostgresBatchStore(database, { retention_days: 30 }, { now: () => clock.now }),
  clock,
  rows: async () => {
    const [row] = await database.query<{ n: number }>(
      'SELECT (SELECT count(*) FROM batches) + (SELECT count(*) FROM batch_lines) AS n',
    );
    return row?.n ?? 0;
  },
});
