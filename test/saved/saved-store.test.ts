// Runs the SavedStore tests on the store in the data folder.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LmdbSavedStore } from '../../src/storage/lmdb/dashboard/saved-store.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { savedStoreTests } from './saved-store.js';

savedStoreTests(async (t, now) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-saved-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  return new LmdbSavedStore(store, now);
});
