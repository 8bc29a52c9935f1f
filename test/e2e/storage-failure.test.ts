// Tests a server whose disk fails during a sync, or during the write of the meta page that records it. No request may
// hang, no lost write may be acknowledged, /readyz and the log must report the failure immediately, and the process
// must exit so that a supervisor restarts it.
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';
import { startScripted } from '../support/script-model.js';
import type { Monolith } from './monolith.js';
import { dataFolder } from './stored-server.js';

t.setTimeout(300_000); // the machine may be busy

interface Answer {
  status: number;
  body: { id?: string; error?: { code: string } };
}

async function create(server: Monolith, text: string): Promise<Answer> {
  const response = await fetch(`${server.url}/v1/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tycho-1.0', input: text }),
  });
  return { status: response.status, body: (await response.json()) as Answer['body'] };
}

const retrieve = async (server: Monolith, id: string): Promise<number> =>
  (await fetch(`${server.url}/v1/responses/${id}`, { headers: { authorization: `Bearer ${server.key}` } })).status;

for (const [how, threads] of [
  ['sync', '1'],
  ['meta', '2'],
] as const) {
  t.test(
    `a ${how} failure refuses writes and ends the process without losing acknowledged responses (http.threads ${threads})`,
    async (t) => {
      const data = dataFolder();
      t.teardown(() => data.remove());
      const failing = join(data.path, 'failing');
      const args = ['--http-threads', threads, '--http-unready-ms', '2000'];
      const server = await startScripted({
        args,
        models: ['tycho-1.0'],
        env: {
          MONOLITH_DATA_DIR: data.path,
          LD_PRELOAD: join(packageRoot, 'build', 'Release', 'libstorage_faults.so'),
          FAULT_FILE: '/db/data.mdb',
          FAULT_FROM: failing,
          FAULT_AT: '1',
          FAULT_HOW: how,
          FAULT_SEEN: join(data.path, 'seen'),
        },
      });
      const exited = once(server.process, 'exit');
      const {
        status,
        body: { id = '' },
      } = await create(server, 'A: go');
      t.equal(status, 200);
      writeFileSync(failing, '');
      const acknowledged = [id];
      const answers = await Promise.all(Array.from({ length: 6 }, () => create(server, 'A: go')));
      for (const answer of answers) {
        if (answer.status === 200) acknowledged.push(answer.body.id!);
        else t.match(answer, { status: 503, body: { error: { code: 'maintenance' } } });
      }
      const ready = await fetch(`${server.url}/readyz`);
      t.equal(ready.status, 503);
      t.equal((await create(server, 'A: go')).status, 503);
      for (let n = 0; n < 8; n++)
        t.equal(await retrieve(server, id), 503, 'responses that may be lost are not returned either');
      t.match(server.log(), /database no longer accepts writes: shutting down/);
      t.match(server.log(), /Input\/output error/);
      t.same(await exited, [null, 'SIGKILL'], 'the process kills itself so that a supervisor restarts it');
      const again = await startScripted({ args, models: ['tycho-1.0'], env: { MONOLITH_DATA_DIR: data.path } });
      for (const id of acknowledged) t.equal(await retrieve(again, id), 200);
      t.equal((await create(again, 'A: go')).status, 200);
      t.equal(await again.stop(), 0);
    },
  );
}
