// A worker thread that creates a key and a session in the given directory on request, and reports when both are on
// disk.
import { parentPort, workerData } from 'node:worker_threads';
import { LmdbDirectory } from '../../src/storage/lmdb/accounts/directory.js';
import { SessionTable } from '../../src/storage/lmdb/accounts/session-table.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';

export interface Elsewhere {
  path: string;
  go: SharedArrayBuffer;
  said: SharedArrayBuffer;
}

if (parentPort !== null) {
  const { path, go, said } = workerData as Elsewhere;
  const state = new Int32Array(go);
  const store = await openStore(path);
  const keys = new LmdbDirectory(store).apiKeys;
  parentPort.postMessage('ready');
  Atomics.wait(state, 0, 0);
  const { secret, key } = await keys.create('org_a', { name: 'elsewhere' }, null);
  const { secret: cookie } = await store.transaction(() => new SessionTable(store).begin('user_a', '::1', 'a browser'));
  new Uint8Array(said).set(Buffer.from(JSON.stringify({ secret, id: key.id, cookie })));
  Atomics.store(state, 0, 2);
  Atomics.notify(state, 0);
  await store.close();
}
