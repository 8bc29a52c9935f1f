// Runs the directory tests on a real database.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LmdbDirectory } from '../../src/storage/lmdb/accounts/directory.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { directoryTests } from './directory-ports.js';

directoryTests(async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-ports-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  return new LmdbDirectory(store);
});
