// Tests files and uploads in a real LMDB database.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { LmdbFileContents } from '../../src/storage/lmdb/files/contents.js';
import { LmdbFileStore } from '../../src/storage/lmdb/files/file-store.js';
import { LmdbUploadStore } from '../../src/storage/lmdb/files/upload-store.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { TABLES } from '../../src/storage/store.js';
import { fileStoreTests, LIMITS } from './file-store.js';
import { START } from './records.js';

t.setTimeout(300_000); // the machine may be busy

const path = mkdtempSync(join(tmpdir(), 'monolith-files-'));
const store = await openStore(path);
t.teardown(async () => {
  await store.close();
  rmSync(path, { recursive: true, force: true });
});
const clock = { now: START };
const contents = new LmdbFileContents(store, LIMITS, () => clock.now);
const files = new LmdbFileStore(contents);
const rows = async (): Promise<number> =>
  TABLES.filter((name) => /^(file|upload)/.test(name)).reduce(
    (sum, name) => sum + [...store.table(name).keys()].length,
    0,
  );

fileStoreTests({ files, uploads: new LmdbUploadStore(contents, files), clock, rows });

t.test('a sweep finishes an erasure that was interrupted', async (t) => {
  const writer = files.create('org_a');
  await writer.write(new Uint8Array(3 * 1024 ** 2));
  const [id] = [...store.table('file-contents').keys()] as string[];
  await store.transaction(() => {
    contents.forget(id!);
  });
  t.equal(await files.usedBytes('org_a'), 0);
  await files.sweep();
  t.equal(await rows(), 0);
});
