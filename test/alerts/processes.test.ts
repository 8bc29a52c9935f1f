// Tests the alert that a process is down, with two real server processes that share PostgreSQL and Redis. Whichever
// process sends the alerts is killed. The other process must report the loss exactly once, and the return exactly once.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import type { AlertState } from '../../src/shared/wire/alerts.js';
import { eventually, type Monolith } from '../e2e/monolith.js';
import { webhookReceiver } from '../support/alert-receivers.js';
import { dashboardClient } from '../support/dashboard-client.js';
import { startPostgres, withoutPostgres } from '../support/postgres.js';
import { startRedis, withoutRedis } from '../support/redis.js';
import { startScripted } from '../support/script-model.js';

t.setTimeout(300_000); // the machine may be busy

t.test(
  'a killed process is reported once by another one, and its return once',
  { skip: withoutRedis || withoutPostgres },
  async (t) => {
    const redis = await startRedis();
    t.teardown(() => redis.stop());
    const postgres = await startPostgres();
    t.teardown(() => postgres.close());
    const hook = await webhookReceiver(t);
    const folders = ['a', 'b'].map((name) => mkdtempSync(join(tmpdir(), `monolith-alerts-${name}-`)));
    t.teardown(() => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })));
    const start = (folder: string): Promise<Monolith> =>
      startScripted({
        args: ['--database', postgres.url, '--redis', redis.url, '--threads', '1', '--no-webhooks-public-only'],
        models: ['hal-1.0'],
        env: {
          MONOLITH_DATA_DIR: folder,
          MONOLITH_ACCOUNTS_SIGNUP: 'open',
          MONOLITH_ALERTS_WEBHOOKS: hook.url,
          MONOLITH_ALERTS_WEBHOOK_SECRET: 'a secret of sixteen characters or more',
          MONOLITH_ALERTS_DISK_FREE_BYTES: '0',
          MONOLITH_ALERTS_WINDOW_S: '10',
          MONOLITH_ALERTS_DOWN_S: '15',
          MONOLITH_ALERTS_CLEAR_S: '0',
        },
      });
    const servers = await Promise.all(folders.map(start));
    t.teardown(() => Promise.all(servers.map((server) => server.stop())));
    const operator = dashboardClient(servers[0]!.url);
    await operator.signUp({ email: 'owner@example.com' });
    const state = async (url: string): Promise<AlertState> => {
      const client = dashboardClient(url);
      await client.login('owner@example.com');
      return client.get<AlertState>('/operator/alerts');
    };
    let seen = await state(servers[0]!.url);
    t.ok(
      await eventually(async () => {
        seen = await state(servers[0]!.url);
        return seen.processes.length === 2 && seen.processes.filter(({ sends }) => sends).length === 1;
      }),
      'both processes are seen, and one sends',
    );
    t.equal(seen.watches_down, true);
    t.match(seen.processes.map(({ name }) => name).join(), new RegExp(folders.join('.*')));

    const sender = seen.processes.find(({ sends }) => sends)?.name ?? '';
    const killed = folders.findIndex((folder) => sender.includes(folder));
    const left = servers[1 - killed]!;
    servers[killed]!.process.kill('SIGKILL');
    t.ok(await eventually(() => hook.taken.length > 0, 60_000), 'the other process reports it');
    t.match(hook.bodies()[0], {
      type: 'alert.began',
      incident: { kind: 'down', title: `Process down: ${sender}`, process: sender, what: /no heartbeat since/ },
    });
    await new Promise((done) => setTimeout(done, 3_000));
    t.equal(hook.taken.length, 1, 'once');
    t.match(await state(left.url), {
      active: [{ kind: 'down', deliveries: [{ state: 'delivered' }] }],
      measures: [{ kind: 'error_rate' }, { kind: 'down' }, { kind: 'down' }],
    });

    servers[killed] = await start(folders[killed]!);
    t.ok(await eventually(() => hook.taken.length > 1), 'its return is reported');
    await new Promise((done) => setTimeout(done, 2_500));
    t.match(
      hook.bodies().map(({ type }) => type),
      ['alert.began', 'alert.ended'],
    );
    t.match(hook.bodies()[1], { incident: { end: 'The process is running again.' } });

    await servers[killed].stop();
    await new Promise((done) => setTimeout(done, 2_500));
    t.equal((await state(left.url)).processes.length, 1, 'a process that is stopped is not down');
    t.equal(hook.taken.length, 2);
  },
);
