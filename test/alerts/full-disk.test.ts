// Tests that each alert is sent once while the disk is full, and stored when there is space again.
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';
import type { AlertState } from '../../src/shared/wire/alerts.js';
import { eventually } from '../e2e/monolith.js';
import { dataFolder } from '../e2e/stored-server.js';
import { webhookReceiver } from '../support/alert-receivers.js';
import { openOwned } from '../support/owned-server.js';
import { freePort } from '../support/free-port.js';

t.setTimeout(300_000); // the machine may be busy

t.test('a full disk does not prevent alerts', async (t) => {
  const data = dataFolder();
  t.teardown(() => data.remove());
  const full = join(data.path, 'full');
  const hook = await webhookReceiver(t);
  const { server, owner, close } = await openOwned({
    models: ['hal-1.0'],
    args: ['--no-webhooks-public-only', '--model', `gone-1.0=http://127.0.0.1:${await freePort()}/v1`],
    env: {
      MONOLITH_DATA_DIR: data.path,
      MONOLITH_ALERTS_SLACK: hook.url,
      MONOLITH_ALERTS_DISK_FREE_BYTES: '0',
      MONOLITH_ALERTS_WINDOW_S: '10',
      MONOLITH_ALERTS_MIN_REQUESTS: '5',
      MONOLITH_ALERTS_CLEAR_S: '0',
      LD_PRELOAD: join(packageRoot, 'build', 'Release', 'libstorage_faults.so'),
      FAULT_FILE: '/db/data.mdb',
      FAULT_FROM: full,
      FAULT_AT: '1',
      FAULT_HOW: 'full',
      FAULT_SEEN: join(data.path, 'seen'),
    },
  });
  t.teardown(close);
  const change = async (): Promise<number> =>
    (await owner.fetch('/operator/prices', { method: 'PUT', body: { currency: 'EUR', models: {} } })).status;
  writeFileSync(full, '');
  t.equal(await change(), 503, 'the disk is full');
  for (let at = 0; at < 5; at++) {
    const response = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${server.key}` },
      body: JSON.stringify({ model: 'gone-1.0', messages: [{ role: 'user', content: 'A' }] }),
    });
    await response.text();
    t.equal(response.status, 503);
  }
  t.ok(await eventually(() => hook.taken.length === 1));
  t.match(hook.bodies()[0], { text: /^Monolith: Alert: 100% of requests fail/ });
  await new Promise((done) => setTimeout(done, 2_500));
  t.equal(hook.taken.length, 1, 'once');
  t.equal(await change(), 503);
  rmSync(full);
  t.ok(await eventually(() => hook.taken.length === 2), 'its end is reported');
  const isStored = async (): Promise<boolean> =>
    (await owner.get<AlertState>('/operator/alerts')).recent[0]?.deliveries.every(
      ({ state }) => state === 'delivered',
    ) === true;
  t.ok(await eventually(isStored));
});
