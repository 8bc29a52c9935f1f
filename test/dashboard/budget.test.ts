// Tests an organization's monthly budget: who can set and read it, how spending is computed, and the alerts by email
// and by signed webhook, each sent once.
import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import type { IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { LmdbBudgetStore } from '../../src/storage/lmdb/usage/budget-store.js';
import { BudgetWatch } from '../../src/usage/budget-watch.js';
import { LmdbPriceStore } from '../../src/storage/lmdb/usage/price-store.js';
import { LmdbUsageStore } from '../../src/storage/lmdb/usage/usage-store.js';
import { sendWebhook } from '../../src/usage/webhook.js';
import type { BudgetObject } from '../../src/shared/wire/usage.js';
import type { Mail } from '../../src/accounts/mail/mailer.js';
import { eventually } from '../e2e/monolith.js';
import { refusal } from '../support/dashboard-client.js';
import type { DashboardClient } from '../support/dashboard-client.js';
import { startDashboard, folderDirectory } from '../support/dashboard-server.js';
import { finished } from '../usage/usage-store.js';

t.setTimeout(300_000); // the machine may be busy

interface Taken {
  headers: IncomingHttpHeaders;
  body: string;
}

/** A webhook receiver that responds with the given statuses in turn, then with 204. */
async function receiver(statuses: number[]): Promise<{ url: string; taken: Taken[]; close(): Promise<void> }> {
  const taken: Taken[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request
      .setEncoding('utf8')
      .on('data', (piece: string) => {
        body += piece;
      })
      .on('end', () => {
        taken.push({ headers: request.headers, body });
        response.writeHead(statuses.shift() ?? 204, { location: 'http://127.0.0.1:1/' }).end();
      });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    taken,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
      }),
  };
}

const put = async (
  client: DashboardClient,
  path: string,
  body: unknown,
): Promise<{ status: number; body: BudgetObject }> => {
  const response = await client.fetch(path, { method: 'PUT', body });
  return { status: response.status, body: (await response.json()) as BudgetObject };
};

t.test('admins set a budget, members read it, and each threshold sends one alert per month', async (t) => {
  const dashboard = await startDashboard({ webhooks: { public_only: false } });
  t.teardown(() => dashboard.close());
  const hook = await receiver([]);
  t.teardown(() => hook.close());
  const owner = dashboard.client();
  const {
    organization: { id },
  } = await owner.signUp({ email: 'owner@example.com', organization_name: 'Harbour' });
  const path = `/organizations/${id}/budget`;
  t.match(await owner.get(path), { amount: null, spent: null, webhook_secret: null });
  for (const wrong of [
    { amount: 0 },
    { amount: 5, webhook_url: 'ftp://example.com' },
    { amount: 5, webhook_url: 'nothing' },
    {},
  ])
    t.ok((await put(owner, path, wrong)).status >= 400, JSON.stringify(wrong));
  const {
    body: { webhook_secret: secret },
  } = await put(owner, path, { amount: 10, webhook_url: hook.url });
  t.match(secret, /^[0-9a-f]{64}$/);
  const stranger = dashboard.client();
  await stranger.signUp();
  t.match(await refusal(stranger.get(path)), { status: 404 });

  const { store, audit, organizations, members } = folderDirectory(dashboard.server);
  const usage = new LmdbUsageStore(store);
  const prices = new LmdbPriceStore(store, audit);
  await prices.set(
    { currency: 'EUR', models: { 'hal-1.0': { input: 0, cached_input: 0, output: 1e6 } } },
    { actor: { type: 'command_line', id: null, email: null, ip: null }, action: 'prices.changed' },
  );
  const spend = (tokens: number): Promise<void> =>
    usage.record([{ usage: finished({ organizationId: id, outputTokens: tokens }), at: Date.now() }]);
  const mails: Mail[] = [];
  const watch = new BudgetWatch({
    budgets: new LmdbBudgetStore(store, audit),
    prices,
    usage,
    organizations,
    members,
    base: 'http://localhost',
    webhooks: { public_only: false, timeout_ms: 5_000, attempts: 2 },
    mailer: { enabled: true, send: (mail) => mails.push(mail), deliver: async () => undefined, close: () => undefined },
    log: { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined },
  });
  t.teardown(() => watch.close());
  await spend(7);
  await watch.run();
  t.match(await owner.get(path), { amount: 10, spent: 7, currency: 'EUR' });
  t.same([mails.length, hook.taken.length], [0, 0], 'no alert is sent below the first threshold');
  await spend(2);
  await Promise.all([watch.run(), watch.run()]);
  await watch.run();
  t.ok(await eventually(() => hook.taken.length === 1));
  t.match(mails, [
    {
      to: 'owner@example.com',
      subject: 'Harbour has spent 80% of its budget',
      text: /9\.00 EUR of its budget of 10 EUR/,
    },
  ]);
  const [{ headers, body }] = hook.taken as [Taken];
  t.match(JSON.parse(body), {
    type: 'budget.alert',
    organization: { id, name: 'Harbour' },
    percent: 80,
    spent: 9,
    amount: 10,
    currency: 'EUR',
  });
  const [, seconds, given] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(headers['monolith-signature'])) ?? [];
  t.equal(
    given,
    createHmac('sha256', secret as string)
      .update(`${seconds}.${body}`)
      .digest('hex'),
    'the webhook is signed with the secret',
  );
  t.ok(Math.abs(Date.now() / 1000 - Number(seconds)) < 60, 'the signed timestamp is the current time in seconds');
  await spend(20);
  await watch.run();
  await watch.run();
  t.ok(await eventually(() => hook.taken.length === 2));
  t.same(
    mails.map(({ subject }) => /\d+/.exec(subject)?.[0]),
    ['80', '100'],
    'each threshold sends one mail',
  );

  t.equal(
    (await put(owner, path, { amount: 100, mail: false })).body.webhook_secret,
    null,
    'there is no webhook secret without a webhook URL',
  );
  t.match(await put(owner, path, { amount: null }), { body: { amount: null, spent: 29 } });
  await put(owner, path, { amount: 1 });
  await owner.delete(`/organizations/${id}`);
  t.ok(
    await eventually(() => dashboard.inside(async (inner) => [...inner.table('budgets').keys()].length === 0)),
    'deleting the organization deletes its budget',
  );
});

t.test('refuses a webhook URL in a private network by default', async (t) => {
  const dashboard = await startDashboard();
  t.teardown(() => dashboard.close());
  const owner = dashboard.client();
  const {
    organization: { id },
  } = await owner.signUp();
  const path = `/organizations/${id}/budget`;
  for (const host of [
    '127.0.0.1:9',
    'localhost',
    'a.localhost.',
    '[::1]',
    '[::ffff:10.0.0.1]',
    '2130706433',
    '0x7f.1',
    '10.1.2.3',
    '169.254.169.254',
    '192.168.0.1',
    '[fd00::1]',
  ]) {
    const refused = await put(owner, path, { amount: 5, webhook_url: `http://${host}/hook` });
    t.match(refused, { status: 422, body: { error: { code: 'invalid_value', param: 'webhook_url' } } }, host);
  }
  t.equal((await put(owner, path, { amount: 5, webhook_url: 'https://hooks.example.com/x' })).status, 200);
  t.equal((await put(owner, path, { amount: 5, webhook_url: 'https://8.8.8.8/x' })).status, 200);
});

t.test('concurrent budget reads are limited: two run, 64 wait and the rest get 503', async (t) => {
  const dashboard = await startDashboard();
  t.teardown(() => dashboard.close());
  const owner = dashboard.client();
  const { organization } = await owner.signUp();
  const priced = await owner.fetch('/operator/prices', {
    method: 'PUT',
    body: { currency: 'EUR', models: { 'hal-1.0': { input: 0, cached_input: 0, output: 1e6 } } },
  });
  t.equal(priced.status, 200);
  const hour = Math.floor(Date.now() / 3_600_000);
  await dashboard.inside((store) =>
    store.transaction(() => {
      const hours = store.table('usage-hours');
      for (let key = 0; key < 5_000; key++)
        void hours.put(
          [organization.id, hour, 'hal-1.0', `key_${key}`, '/v1/responses'],
          [1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 1],
        );
    }),
  );
  const path = `/organizations/${organization.id}/budget`;
  t.match(await owner.get<BudgetObject>(path), { spent: 5_000, currency: 'EUR' });
  const all = await Promise.all(Array.from({ length: 100 }, async () => (await owner.fetch(path)).status));
  t.ok(all.filter((status) => status === 200).length >= 66, 'two reads run and 64 wait for their turn');
  t.ok(all.includes(503), 'reads beyond the queue get 503');
});

t.test(
  'a webhook is retried a limited number of times, does not follow redirects, and reaches only public addresses where configured',
  async (t) => {
    const settings = { public_only: false, timeout_ms: 5_000, attempts: 3 };
    const go = new AbortController().signal;
    const later = await receiver([500, 503]);
    t.teardown(() => later.close());
    await sendWebhook(later.url, 's', { message: { a: 1 }, settings, signal: go, firstPauseMs: 5 });
    t.equal(later.taken.length, 3);
    const never = await receiver([500, 302, 500, 200]);
    t.teardown(() => never.close());
    await t.rejects(sendWebhook(never.url, 's', { message: {}, settings, signal: go, firstPauseMs: 5 }), {
      message: /status 500/,
    });
    t.equal(never.taken.length, 3);
    const switching = createServer((request) =>
      request.socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n'),
    );
    await new Promise<void>((resolve) => switching.listen(0, '127.0.0.1', resolve));
    t.teardown(() => switching.close());
    const waits = new Promise((_, reject) => {
      setTimeout(() => reject(new Error('the webhook call did not return within 10 seconds')), 10_000).unref();
    });
    await t.rejects(
      Promise.race([
        waits,
        sendWebhook(`http://127.0.0.1:${(switching.address() as AddressInfo).port}/`, 's', {
          message: {},
          settings: { ...settings, attempts: 1 },
          signal: go,
          firstPauseMs: 5,
        }),
      ]),
      { message: /responded with status 101/ },
    );
    const inside = await receiver([]);
    t.teardown(() => inside.close());
    // A loopback or private address in every notation, and a host name that resolves to such an address.
    for (const host of [
      '127.0.0.1',
      'localhost',
      '[::1]',
      '[::ffff:127.0.0.1]',
      '2130706433',
      '0.0.0.0',
      '10.0.0.1',
      '[fd00::1]',
    ]) {
      const url = inside.url.replace('127.0.0.1', host);
      await t.rejects(
        sendWebhook(url, 's', {
          message: {},
          settings: { ...settings, public_only: true, attempts: 1 },
          signal: go,
          firstPauseMs: 5,
        }),
        { message: /public address/ },
        host,
      );
    }
    t.same(inside.taken, []);
  },
);
