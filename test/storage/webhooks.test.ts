// Tests webhook endpoints and deliveries in a real LMDB database.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { LmdbWebhookStore } from '../../src/storage/lmdb/webhooks/webhook-store.js';
import { TABLES } from '../../src/storage/store.js';
import { webhookStoreTests } from './webhook-store.js';

t.setTimeout(300_000); // the machine may be busy

const path = mkdtempSync(join(tmpdir(), 'monolith-webhooks-'));
const store = await openStore(path);
t.teardown(async () => {
  await store.close();
  rmSync(path, { recursive: true, force: true });
});

webhookStoreTests({
  webhooks: new LmdbWebhookStore(store),
  rows: async () =>
    TABLES.filter((name) => name.startsWith('webhook')).reduce(
      (sum, name) => sum + [...store.table(name).keys()].length,
      0,
    ),
});
