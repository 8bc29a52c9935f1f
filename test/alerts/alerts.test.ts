// Tests the operators' alerts with a real server, webhook receivers and an SMTP server. They check that:
// - every destination receives one message when an incident starts, one when it ends, and none in between, even across
//   a restart;
// - the message says what was measured, the threshold, since when, where, and what to look at;
// - delivery to an unreachable destination is retried for a limited time, and the page and the log show why it failed;
// - an invalid setting prevents the start with an error that names the setting.
import { createHmac } from 'node:crypto';
import t from 'tap';
import type { AlertState, AlertTest } from '../../src/shared/wire/alerts.js';
import { embeddedModel, eventually } from '../e2e/monolith.js';
import { mailReceiver, webhookReceiver, type ReceivedMail } from '../support/alert-receivers.js';
import { refusal } from '../support/dashboard-client.js';
import { startDashboard } from '../support/dashboard-server.js';
import { freePort } from '../support/free-port.js';

t.setTimeout(300_000); // the machine may be busy

const SECRET = 'a secret of sixteen characters or more';
const KEY = 'test-key-0123456789';
/** Nothing is measured, and incidents end without delay. */
const QUIET = {
  error_rate: null,
  disk_free_bytes: 0,
  budgets: false,
  webhook_secret: SECRET,
  window_s: 10,
  min_requests: 5,
  clear_s: 0,
};
/** A threshold above any disk's free space, so that an alert starts immediately. */
const FULL_DISK = { ...QUIET, disk_free_bytes: 2 ** 50 };

async function ask(url: string, model: string): Promise<number> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model,
      max_completion_tokens: 2,
      reasoning_effort: 'none',
      messages: [{ role: 'user', content: 'Hi' }],
    }),
  });
  await response.text();
  return response.status;
}

t.test('an incident sends one message when it begins and one when it ends, also across a restart', async (t) => {
  const mail = await mailReceiver(t);
  const hook = await webhookReceiver(t);
  const slack = await webhookReceiver(t, 200);
  const dashboard = await startDashboard({
    api_key: KEY,
    model: { 'hal-1.0': embeddedModel, 'gone-1.0': `http://127.0.0.1:${await freePort()}/v1` },
    dashboard: { url: 'http://localhost:9999/' },
    mail: { smtp_url: mail.url },
    webhooks: { public_only: false },
    alerts: {
      ...QUIET,
      mail: ['ops@example.com'],
      webhooks: [hook.url],
      slack: [slack.url],
      error_rate: 0.2,
      clear_s: 8,
    },
  });
  t.teardown(() => dashboard.close());
  const operator = dashboard.client();
  await operator.signUp({ email: 'owner@example.com' });
  const mails = (): ReceivedMail[] => mail.mails.filter(({ to }) => to.includes('ops@example.com'));
  const counts = (): number[] => [mails().length, hook.taken.length, slack.taken.length];

  // concurrently, because all requests must finish within the window
  const fail = async (count: number): Promise<void> => {
    const statuses = await Promise.all(Array.from({ length: count }, () => ask(dashboard.url, 'gone-1.0')));
    t.same(new Set(statuses), new Set([503]));
  };
  await fail(4);
  await new Promise((done) => setTimeout(done, 2_500));
  t.same(counts(), [0, 0, 0], 'four requests are too few to alert');
  t.match((await operator.get<AlertState>('/operator/alerts')).measures, [
    { name: 'Error rate', value: '100% of 4', state: 'unknown', note: 'fewer than 5 requests' },
  ]);
  await fail(5);
  t.ok(await eventually(() => counts().every((count) => count === 1)), 'each destination gets one message');

  const [{ headers, body }] = hook.taken as [(typeof hook.taken)[0]];
  const [, seconds, given] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(headers['monolith-signature'])) ?? [];
  t.equal(given, createHmac('sha256', SECRET).update(`${seconds}.${body}`).digest('hex'), 'the webhook is signed');
  t.match(JSON.parse(body), {
    type: 'alert.began',
    id: /^inc_\w+\.began$/,
    incident: {
      kind: 'error_rate',
      title: '100% of requests fail (threshold 20%)',
      what: /^\d+ of \d+ API requests in the last 10 seconds ended with a server error \(5xx\): 100%; the threshold is 20%\.$/,
      process: /\(.*monolith-dashboard-.*\)$/,
      look_at: /All requests/,
      value: 1,
      threshold: 0.2,
      ended_at: null,
    },
    url: 'http://localhost:9999/dashboard/operator/alerts',
  });
  t.equal(slack.taken[0]?.headers['monolith-signature'], undefined, 'a Slack webhook is not signed');
  t.match(slack.bodies()[0], {
    text: /^Monolith: Alert: 100% of requests fail \(threshold 20%\)\nWhat: \d+ of \d+ API/,
  });
  t.match(mails()[0], {
    text: /Subject: \[Monolith\] Alert: 100% of requests fail[^]*Since: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC[^]*Process: [^]*Look at: /,
  });
  const isDelivered = async (): Promise<boolean> =>
    (await operator.get<AlertState>('/operator/alerts')).active[0]?.deliveries.every(
      ({ state }) => state === 'delivered',
    ) === true;
  t.ok(await eventually(isDelivered));
  t.match(await operator.get<AlertState>('/operator/alerts'), {
    active: [
      { kind: 'error_rate', deliveries: Array.from({ length: 3 }, () => ({ state: 'delivered', attempts: 1 })) },
    ],
    recent: [],
    measures: [{ state: 'alert', value: /^100% of \d+$/ }],
    watches_down: false,
    processes: [],
  });

  await dashboard.restart();
  await fail(6);
  await new Promise((done) => setTimeout(done, 4_000));
  t.same(counts(), [1, 1, 1], 'a restart in the middle of the incident sends nothing again');

  for (let at = 0; at < 5; at++) t.equal(await ask(dashboard.url, 'hal-1.0'), 200);
  t.ok(await eventually(() => counts().every((count) => count === 2)), 'recovery sends one message');
  t.match(hook.bodies()[1], { type: 'alert.ended', incident: { kind: 'error_rate', end: /API request/ } });
  t.match(mails()[1]?.text, /Subject: \[Monolith\] Alert ended: [^]*Began: [^]*Ended: \d{4}-.*, after \d+/);
  await new Promise((done) => setTimeout(done, 1_500));
  t.same(counts(), [2, 2, 2]);
  const later = dashboard.client();
  await later.login('owner@example.com');
  t.match(await later.get<AlertState>('/operator/alerts'), { active: [], recent: [{ kind: 'error_rate' }] });
});

t.test(
  'a failed delivery is tried again for a limited time, and shown on the page, in the log and in metrics',
  async (t) => {
    const broken = await webhookReceiver(t, 500);
    const fine = await webhookReceiver(t);
    const dashboard = await startDashboard({
      api_key: KEY,
      webhooks: { public_only: false },
      alerts: { ...FULL_DISK, slack: [broken.url, fine.url], retry_s: 12, objectives: 'e2e_p50=1us', min_requests: 1 },
    });
    t.teardown(() => dashboard.close());
    const operator = dashboard.client();
    await operator.signUp({ email: 'owner@example.com' });
    const deliveries = async (): Promise<AlertState['active'][0]['deliveries']> =>
      (await operator.get<AlertState>('/operator/alerts')).active.find(({ kind }) => kind === 'disk')?.deliveries ?? [];
    t.ok(await eventually(async () => (await deliveries())[0]?.state === 'failed'));
    t.match(await deliveries(), [
      { state: 'failed', attempts: 2 },
      { state: 'delivered', attempts: 1 },
    ]);
    t.same([broken.taken.length, fine.taken.length], [2, 1]);
    t.ok(await eventually(() => dashboard.logs.some((line) => line.includes('giving up'))));
    t.match(
      dashboard.logs.filter((line) => line.includes('alert not delivered')),
      [/127\.0\.0\.1.*status 500.*retrying/, /127\.0\.0\.1.*status 500.*giving up/],
    );
    t.notMatch(dashboard.logs.join(), 'secret-token', 'the log does not contain the token in the URL');
    const metrics = await (
      await fetch(`${dashboard.url}/metrics`, { headers: { authorization: `Bearer ${KEY}` } })
    ).text();
    t.match(metrics, /^monolith_alert_incidents\{kind="disk"\} 1$/m);
    t.match(metrics, /^monolith_alert_incidents\{kind="error_rate"\} 0$/m);
    for (const [outcome, count] of [
      ['delivered', 1],
      ['retried', 1],
      ['failed', 1],
    ] as const)
      t.match(metrics, `monolith_alert_deliveries_total{destination="slack",outcome="${outcome}"} ${count}`);

    await t.test('a test alert reports what happened', async (t) => {
      const { destinations } = await operator.get<AlertState>('/operator/alerts');
      t.match(destinations, [{ type: 'slack', label: /^http:\/\/127\.0\.0\.1:\d+\/…1234$/ }, { type: 'slack' }]);
      const [first, second] = destinations.map(({ id }) => ({ destination: id }));
      t.match(await operator.post<AlertTest>('/operator/alerts/test', first), {
        delivered: false,
        error: 'the receiver responded with status 500',
      });
      t.match(await operator.post<AlertTest>('/operator/alerts/test', second), { delivered: true, error: null });
      t.match(fine.bodies().at(-1), { text: /^Monolith: Test alert\n/ });
      t.match(await refusal(operator.post('/operator/alerts/test', { destination: 'nowhere' })), {
        status: 404,
        param: 'destination',
      });
      const stranger = dashboard.client();
      await stranger.signUp();
      t.match(await refusal(stranger.get('/operator/alerts')), { status: 403 });
      t.match(await operator.get('/operator/audit-log'), {
        data: [{ action: 'alert.tested' }, { action: 'alert.tested' }],
      });
    });

    await t.test('a missed latency objective names the model and the values', async (t) => {
      t.equal(await ask(dashboard.url, 'hal-1.0'), 200);
      const missed = (): boolean => fine.taken.some(({ body }) => body.includes('e2e_p50 of hal-1.0'));
      t.ok(await eventually(missed));
      t.match(fine.bodies().at(-1), {
        text: /Alert: e2e_p50 of hal-1\.0 is [\d.]+ m?s \(objective 0\.001 ms\)\nWhat: The end-to-end latency of hal-1\.0 \(percentile 50\) over the last 10 seconds was/,
      });
    });
  },
);

t.test('settings that cannot work prevent the start', async (t) => {
  const refused = (alerts: object, message: RegExp): Promise<unknown> =>
    t.rejects(startDashboard({ alerts: { ...QUIET, ...alerts } }), { name: 'StartError', message });
  await refused({ mail: ['ops@example.com'] }, /^alerts\.mail requires mail\.smtp_url/);
  await refused({ webhooks: ['https://example.com/x'], webhook_secret: null }, /requires alerts\.webhook_secret/);
  await refused(
    { slack: ['http://10.0.0.1/x'] },
    /^alerts\.slack: 10\.0\.0\.1 is not a public .* webhooks\.public_only/,
  );
  await refused({ objectives: 'ttft_p99=soon' }, /^alerts\.objectives: "ttft_p99=soon"/);
  await refused({ objectives: 'errors=1%' }, /use alerts\.error_rate/);
});
