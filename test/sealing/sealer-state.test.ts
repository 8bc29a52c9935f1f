// Runs the SealerState tests on the state in the data folder.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LmdbSealerState } from '../../src/storage/lmdb/accounts/sealer-state.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { sealerStateTests } from './sealer-state.js';

sealerStateTests(async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-sealer-state-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  return (now) => new LmdbSealerState(store, now);
});
