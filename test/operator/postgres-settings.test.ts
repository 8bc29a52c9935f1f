// Tests operators' and users' settings on a real PostgreSQL: each change is stored together with its audit log entry or
// not at all, regardless of which process writes it.
import t, { type Test } from 'tap';
import { PostgresDirectory } from '../../src/storage/postgres/accounts/directory.js';
import { PostgresAdapters } from '../../src/storage/postgres/dashboard/adapters.js';
import { PostgresEngineSettings } from '../../src/storage/postgres/dashboard/engine-settings.js';
import { PostgresModelSettings } from '../../src/storage/postgres/dashboard/model-settings.js';
import { PostgresServedModels } from '../../src/storage/postgres/dashboard/served-models.js';
import { PostgresSavedStore } from '../../src/storage/postgres/dashboard/saved-store.js';
import { PostgresSealerState } from '../../src/storage/postgres/accounts/sealer-state.js';
import type { Database } from '../../src/storage/postgres/database.js';
import { PostgresBudgetStore } from '../../src/storage/postgres/usage/budget-store.js';
import { PostgresPriceStore } from '../../src/storage/postgres/usage/price-store.js';
import { savedStoreTests } from '../storage/saved-store.js';
import { sealerStateTests } from '../sealing/sealer-state.js';
import { databaseFor, postgresFor } from '../support/databases.js';
import { leaveOutIf } from '../support/needed-programs.js';
import { withoutPostgres } from '../support/postgres.js';
import { budgetStoreTests, priceStoreTests } from '../usage/price-stores.js';
import {
  adapterStoreTests,
  engineSettingsStoreTests,
  modelSettingsStoreTests,
  servedModelStoreTests,
} from './settings-stores.js';

t.setTimeout(300_000); // the machine may be busy

leaveOutIf(t, withoutPostgres);
const postgres = await postgresFor(t);
const open = async (t: Test): Promise<{ database: Database; directory: PostgresDirectory }> => {
  const database = await databaseFor(t, postgres);
  return { database, directory: new PostgresDirectory(database, { notify: () => undefined }) };
};

modelSettingsStoreTests(async (t) => {
  const {
    directory: { work, audit },
  } = await open(t);
  return { settings: new PostgresModelSettings(work), audit };
});
engineSettingsStoreTests(async (t) => {
  const {
    directory: { work, audit },
  } = await open(t);
  return { settings: new PostgresEngineSettings(work), audit };
});
adapterStoreTests(async (t) => {
  const {
    directory: { work, audit },
  } = await open(t);
  return { adapters: new PostgresAdapters(work), settings: new PostgresModelSettings(work), audit };
});
servedModelStoreTests(async (t) => {
  const {
    directory: { work, audit },
  } = await open(t);
  return { served: new PostgresServedModels(work), settings: new PostgresModelSettings(work), audit };
});
priceStoreTests(async (t) => {
  const {
    directory: { work, audit },
  } = await open(t);
  return { prices: new PostgresPriceStore(work), audit };
});
budgetStoreTests(async (t) => {
  const {
    directory: { work, audit },
  } = await open(t);
  return { budgets: new PostgresBudgetStore(work), audit };
});
savedStoreTests(async (t, now) => new PostgresSavedStore((await open(t)).directory.work, now));
sealerStateTests(async (t) => {
  const { database } = await open(t);
  return (now) => new PostgresSealerState(database, now);
});
