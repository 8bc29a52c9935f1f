// The stores that command-line commands change while servers run: accounts, webhook endpoints, and the models that
// operators serve. They live in the data directory or in the shared database. Running servers pick up a change within a
// second.

import { Accounts } from '../accounts/accounts.js';
import type { ServiceAccounts } from '../accounts/service-accounts.js';
import { AccountChanges } from '../accounts/changes.js';
import { LmdbDirectory } from '../storage/lmdb/accounts/directory.js';
import type { AuditLog } from '../accounts/audit.js';
import type { SealerState } from '../accounts/sealing/sealer-state.js';
import { LmdbSealerState } from '../storage/lmdb/accounts/sealer-state.js';
import { PostgresDirectory } from '../storage/postgres/accounts/directory.js';
import { PostgresSealerState } from '../storage/postgres/accounts/sealer-state.js';
import type { Config } from '../config/settings.js';
import { LmdbAdapters } from '../storage/lmdb/dashboard/adapters.js';
import { LmdbServedModels } from '../storage/lmdb/dashboard/served-models.js';
import { PostgresAdapters } from '../storage/postgres/dashboard/adapters.js';
import { PostgresServedModels } from '../storage/postgres/dashboard/served-models.js';
import type { AdapterStore } from '../dashboard/admin/adapter-store.js';
import type { ServedModelStore } from '../dashboard/admin/served-model-store.js';
import { LmdbWebhookStore } from '../storage/lmdb/webhooks/webhook-store.js';
import { PostgresWebhookStore } from '../storage/postgres/webhooks/webhook-store.js';
import type { WebhookStore } from '../webhooks/webhook-store.js';
import { existingDatabase, openStore } from '../storage/lmdb/lmdb-store.js';
import { openPool } from '../storage/postgres/database.js';
import { DatabaseClock } from '../storage/postgres/database-clock.js';
import { migrateExisting } from '../storage/postgres/migrations.js';

export interface CommandStores {
  readonly accounts: Accounts;
  readonly serviceAccounts: ServiceAccounts;
  readonly served: ServedModelStore;
  readonly adapters: AdapterStore;
  readonly webhooks: WebhookStore;
  readonly audit: AuditLog;
  readonly sealer: SealerState;
}

/**
 * Opens the stores for the duration of `work`. Rejects with a StorageError that names the cause, such as a missing
 * database. Only a server creates a database; otherwise, a command with a mistyped address would create one that no
 * server uses.
 */
export async function withStores<T>(
  config: Pick<Config, 'data_dir' | 'database'>,
  work: (stores: CommandStores) => Promise<T>,
): Promise<T> {
  const { url } = config.database;
  const changes = new AccountChanges();
  if (url === null) {
    existingDatabase(config.data_dir);
    const store = await openStore(config.data_dir);
    const directory = new LmdbDirectory(store, changes);
    return await closing(
      {
        accounts: new Accounts(directory, changes),
        serviceAccounts: directory.serviceAccounts,
        served: new LmdbServedModels(store, directory.audit),
        adapters: new LmdbAdapters(store, directory.audit),
        webhooks: new LmdbWebhookStore(store),
        audit: directory.audit,
        sealer: new LmdbSealerState(store),
      },
      work,
      () => store.close(),
    );
  }
  const settings = { ...config.database, url, connections: 2 };
  await migrateExisting(settings);
  const database = openPool(settings);
  let clock: DatabaseClock;
  try {
    clock = await DatabaseClock.measured(database);
  } catch (error) {
    await database.close();
    throw error;
  }
  const directory = new PostgresDirectory(database, changes, clock.now);
  return await closing(
    {
      accounts: new Accounts(directory, changes),
      serviceAccounts: directory.serviceAccounts,
      served: new PostgresServedModels(directory.work),
      adapters: new PostgresAdapters(directory.work),
      webhooks: new PostgresWebhookStore(database),
      audit: directory.audit,
      sealer: new PostgresSealerState(database),
    },
    work,
    () => database.close(),
  );
}

async function closing<T>(
  stores: CommandStores,
  work: (stores: CommandStores) => Promise<T>,
  close: () => Promise<void>,
): Promise<T> {
  try {
    return await work(stores);
  } finally {
    await stores.accounts.close();
    await close();
  }
}
