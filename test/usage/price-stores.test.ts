// Prices and budgets in the LMDB database of the data folder.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { LmdbAuditLog } from '../../src/storage/lmdb/accounts/audit-log.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import type { Store } from '../../src/storage/store.js';
import { LmdbBudgetStore } from '../../src/storage/lmdb/usage/budget-store.js';
import { LmdbPriceStore } from '../../src/storage/lmdb/usage/price-store.js';
import { budgetStoreTests, priceStoreTests } from './price-stores.js';

async function storeFor(t: Test): Promise<{ store: Store; audit: LmdbAuditLog }> {
  const path = mkdtempSync(join(tmpdir(), 'monolith-prices-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  return { store, audit: new LmdbAuditLog(store) };
}

priceStoreTests(async (t) => {
  const { store, audit } = await storeFor(t);
  return { prices: new LmdbPriceStore(store, audit), audit };
});
budgetStoreTests(async (t) => {
  const { store, audit } = await storeFor(t);
  return { budgets: new LmdbBudgetStore(store, audit), audit };
});
