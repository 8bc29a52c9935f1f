// Tests webhook endpoints and deliveries in a real PostgreSQL database.
import t from 'tap';
import { openPool } from '../../src/storage/postgres/database.js';
import { migrate } from '../../src/storage/postgres/migrations.js';
import { PostgresWebhookStore } from '../../src/storage/postgres/webhooks/webhook-store.js';
import { leaveOutIf } from '../support/needed-programs.js';
import { startPostgres, withoutPostgres } from '../support/postgres.js';
import { webhookStoreTests } from './webhook-store.js';

t.setTimeout(300_000); // the machine may be busy

leaveOutIf(t, withoutPostgres);
const postgres = await startPostgres();
t.teardown(() => postgres.close());
const settings = { url: await postgres.create(), connections: 6, timeout_ms: 60_000 };
await migrate(settings);
const database = openPool(settings);
t.teardown(() => database.close());

webhookStoreTests({
  webhooks: new PostgresWebhookStore(database),
  rows: async () => {
    const [row] = await database.query<{ n: number }>(
      'SELECT (SELECT count(*) FROM webhook_endpoints) + (SELECT count(*) FROM webhook_jobs) AS n',
    );
    return row?.n ?? 0;
  },
});
