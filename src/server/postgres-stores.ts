// The stores in the database that several servers share.

import type { AccountChanges } from '../accounts/changes.js';
import { ChangeFeed } from '../storage/postgres/accounts/change-feed.js';
import { PostgresDirectory } from '../storage/postgres/accounts/directory.js';
import type { Config } from '../config/settings.js';
import { PostgresAdapters } from '../storage/postgres/dashboard/adapters.js';
import { PostgresEngineSettings } from '../storage/postgres/dashboard/engine-settings.js';
import { PostgresModelSettings } from '../storage/postgres/dashboard/model-settings.js';
import { PostgresServedModels } from '../storage/postgres/dashboard/served-models.js';
import { PostgresRequestLog } from '../storage/postgres/usage/request-log.js';
import { PostgresSavedStore } from '../storage/postgres/dashboard/saved-store.js';
import { PostgresOrganizationKeyStore } from '../storage/postgres/accounts/organization-key-store.js';
import { PostgresSealerState } from '../storage/postgres/accounts/sealer-state.js';
import type { SharedDatabase } from '../storage/postgres/shared-database.js';
import type { Log } from '../telemetry/types.js';
import { PostgresBudgetStore } from '../storage/postgres/usage/budget-store.js';
import { PostgresPriceStore } from '../storage/postgres/usage/price-store.js';
import { PostgresUsageStore } from '../storage/postgres/usage/usage-store.js';
import type { DisposableStack } from './disposable-stack.js';
import type { SharableStores } from './stores.js';

/** Opens the stores in the shared database and subscribes to changes made by other servers. */
export async function databaseStores(
  { database, clock, listen }: Pick<SharedDatabase, 'database' | 'clock' | 'listen'>,
  { stale_keys_s: staleKeysS }: Pick<Config['database'], 'stale_keys_s'>,
  changes: AccountChanges,
  log: Log,
  undo: DisposableStack,
): Promise<SharableStores> {
  const directory = new PostgresDirectory(database, changes, clock.now);
  undo.add(() => directory.close());
  const feed = new ChangeFeed(database, {
    awayMs: staleKeysS * 1000,
    clock,
    onChange: (organizationId) => changes.receive(organizationId),
    onAway: (err) => {
      if (err === null) log.info({}, 'shared database is reachable again');
      else
        log.error(
          { err, stale_keys_s: staleKeysS },
          'shared database is slow or unreachable: cached API keys stay valid for `database.stale_keys_s`; other requests wait or return 503',
        );
    },
  });
  undo.add(
    listen(
      (message) => feed.receive(message),
      () => void feed.look(),
    ),
  );
  undo.add(() => feed.close());
  await feed.open();
  const { work } = directory;
  return {
    directory,
    keyCachePolicy: feed,
    usage: new PostgresUsageStore(database),
    requests: new PostgresRequestLog(database),
    saved: new PostgresSavedStore(work),
    prices: new PostgresPriceStore(work),
    budgets: new PostgresBudgetStore(work),
    modelSettings: new PostgresModelSettings(work),
    engineSettings: new PostgresEngineSettings(work),
    served: new PostgresServedModels(work),
    adapters: new PostgresAdapters(work),
    sealer: new PostgresSealerState(database),
    organizationKeys: new PostgresOrganizationKeyStore(database),
  };
}
