// Tests the alerts about spent budgets with a real server: one per budget, and none to a recipient that gets the
// organization's own budget notification.
import t from 'tap';
import type { AlertState } from '../../src/shared/wire/alerts.js';
import { LmdbPriceStore } from '../../src/storage/lmdb/usage/price-store.js';
import { LmdbUsageStore } from '../../src/storage/lmdb/usage/usage-store.js';
import { eventually } from '../e2e/monolith.js';
import { webhookReceiver } from '../support/alert-receivers.js';
import { folderDirectory, startDashboard } from '../support/dashboard-server.js';
import { finished } from '../usage/usage-store.js';

t.setTimeout(300_000); // the machine may be busy

t.test('each spent budget alerts the operators once, until it is raised', async (t) => {
  const [operators, both] = [await webhookReceiver(t), await webhookReceiver(t)];
  const dashboard = await startDashboard({
    webhooks: { public_only: false },
    alerts: {
      webhooks: [both.url],
      webhook_secret: 'a secret of sixteen characters or more',
      slack: [operators.url],
      error_rate: null,
      disk_free_bytes: 0,
      window_s: 10,
      clear_s: 0,
    },
  });
  t.teardown(() => dashboard.close());
  const owner = dashboard.client();
  const { organization, user } = await owner.signUp({ email: 'owner@example.com', organization_name: 'Harbour' });
  const { store, audit } = folderDirectory(dashboard.server);
  const actor = { type: 'command_line', id: null, email: null, ip: null } as const;
  await new LmdbPriceStore(store, audit).set(
    { currency: 'EUR', models: { 'hal-1.0': { input: 0, cached_input: 0, output: 1e6 } } },
    { actor, action: 'prices.changed' },
  );
  const path = `/organizations/${organization.id}`;
  const { id: key } = await owner.post<{ id: string }>(`${path}/api-keys`, { name: 'production' });
  const spend = (tokens: number): Promise<void> =>
    new LmdbUsageStore(store).record([
      {
        usage: finished({ organizationId: organization.id, keyId: key, outputTokens: tokens }),
        at: Date.now(),
      },
    ]);
  const subjects = (): unknown[] => operators.bodies().map(({ text }) => String(text).split('\n')[0]);
  const put = async (at: string, body: object): Promise<void> => {
    t.equal((await owner.fetch(path + at, { method: 'PUT', body })).status, 200, at);
  };
  await put('/budget', { amount: 10, stops: true, webhook_url: both.url });
  await put(`/budgets/${key}`, { amount: 5 });
  await put(`/budgets/${user.id}`, { amount: 7 });
  await spend(6);
  t.ok(await eventually(() => subjects().length === 1));
  t.match(subjects(), [`Monolith: Alert: Budget spent: API key "production" (${key}) of organization "Harbour"`]);
  t.match(operators.bodies()[0], {
    text: /\nWhat: The API key .* has spent 6\.00 EUR of 5\.00 EUR for \d{4}-\d\d\. Its requests are refused/,
  });
  await spend(6);
  t.ok(await eventually(() => subjects().length === 3));
  t.match(subjects().slice(1).sort(), [
    'Monolith: Alert: Budget spent: member owner@example.com of organization "Harbour"',
    'Monolith: Alert: Budget spent: organization "Harbour"',
  ]);
  const { active } = await owner.get<AlertState>('/operator/alerts');
  t.match(
    active.find(({ title }) => title === 'Budget spent: organization "Harbour"')?.deliveries.map(({ state }) => state),
    ['skipped', 'delivered'],
    "the organization's webhook gets only its own notification",
  );
  t.same(
    both.bodies().filter(({ type }) => type === 'alert.began').length,
    2,
    'and the alerts about the member and the key, about which it sends none',
  );
  await put('/budget', { amount: 100, stops: true, webhook_url: both.url });
  t.ok(await eventually(() => subjects().length === 4));
  t.match(subjects().at(-1), 'Monolith: Alert ended: Budget spent: organization "Harbour"');
  t.match(operators.bodies().at(-1), { text: /Now: The budget was raised or removed, or its month is over\./ });
});
