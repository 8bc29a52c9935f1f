// Tests that a write acknowledged in one thread is immediately visible in another, even within an event-loop turn that
// has already read.
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { LmdbAttempts } from '../../src/storage/lmdb/accounts/attempts.js';
import { keyDigest } from '../../src/accounts/keys.js';
import { LmdbDirectory } from '../../src/storage/lmdb/accounts/directory.js';
import { SessionTable } from '../../src/storage/lmdb/accounts/session-table.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import type { Elsewhere } from './written-elsewhere.js';

for (const what of ['session', 'key', 'way in of the operator token'] as const) {
  t.test(`${what}: a thread sees another thread's write in the same event-loop turn`, async (t) => {
    const path = mkdtempSync(join(tmpdir(), 'monolith-threads-'));
    t.teardown(() => rmSync(path, { recursive: true, force: true }));
    const store = await openStore(path);
    const keys = new LmdbDirectory(store).apiKeys;
    await keys.create('org_a', { name: 'here' }, null); // creates the hash secret before the test
    const elsewhere: Elsewhere = { path, go: new SharedArrayBuffer(4), said: new SharedArrayBuffer(1_024) };
    const worker = new Worker(new URL('./written-elsewhere.js', import.meta.url), { workerData: elsewhere });
    const exited = once(worker, 'exit');
    await once(worker, 'message');
    const state = new Int32Array(elsewhere.go);
    store.table('sessions').get('nothing'); // pins reads in this turn to the current state
    Atomics.store(state, 0, 1);
    Atomics.notify(state, 0);
    t.equal(Atomics.wait(state, 0, 1, 30_000), 'ok');
    const { secret, id, cookie } = JSON.parse(
      Buffer.from(new Uint8Array(elsewhere.said)).toString('utf8').replace(/\0+$/, ''),
    ) as Record<'secret' | 'id' | 'cookie', string>;
    if (what === 'session') t.equal(new SessionTable(store).find(cookie)?.userId, 'user_a');
    else if (what === 'way in of the operator token') await new LmdbAttempts(store).counted('operator', '::1');
    else t.equal(keys.findByDigest(keyDigest(secret))?.id, id);
    t.equal((await keys.get('org_a', id))?.id, id, 'all data that the request reads is up to date');
    await exited;
    await store.close();
  });
}
