// Runs the tests that every implementation of a storage port must pass on the data directory's LMDB database.
import type { Test } from 'tap';
import { LmdbAuditLog } from '../../src/storage/lmdb/accounts/audit-log.js';
import { LmdbDirectory } from '../../src/storage/lmdb/accounts/directory.js';
import { LmdbSealerState } from '../../src/storage/lmdb/accounts/sealer-state.js';
import { LmdbSavedStore } from '../../src/storage/lmdb/dashboard/saved-store.js';
import { LmdbBudgetStore } from '../../src/storage/lmdb/usage/budget-store.js';
import { LmdbPriceStore } from '../../src/storage/lmdb/usage/price-store.js';
import type { Store } from '../../src/storage/store.js';
import { directoryTests } from '../accounts/directory-ports.js';
import { savedStoreTests } from './saved-store.js';
import { sealerStateTests } from '../sealing/sealer-state.js';
import { ownStore } from '../support/own-store.js';
import { budgetStoreTests, priceStoreTests } from '../usage/price-stores.js';

const open = async (t: Test): Promise<{ store: Store; audit: LmdbAuditLog }> => {
  const store = await ownStore(t, 'ports');
  return { store, audit: new LmdbAuditLog(store) };
};

directoryTests(async (t) => new LmdbDirectory(await ownStore(t, 'ports')));
savedStoreTests(async (t, now) => new LmdbSavedStore(await ownStore(t, 'ports'), now));
sealerStateTests(async (t) => {
  const store = await ownStore(t, 'ports');
  return (now) => new LmdbSealerState(store, now);
});
priceStoreTests(async (t) => {
  const { store, audit } = await open(t);
  return { prices: new LmdbPriceStore(store, audit), audit };
});
budgetStoreTests(async (t) => {
  const { store, audit } = await open(t);
  return { budgets: new LmdbBudgetStore(store, audit), audit };
});
