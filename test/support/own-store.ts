import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';

/** Opens a store in a new directory that is removed when the test ends. */
export async function ownStore(t: Pick<Test, 'teardown'>, name: string): ReturnType<typeof openStore> {
  const folder = mkdtempSync(join(tmpdir(), `monolith-${name}-`));
  const store = await openStore(folder);
  t.teardown(async () => {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return store;
}
