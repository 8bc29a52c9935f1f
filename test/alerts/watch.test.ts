// Tests when incidents start and end, with conditions and a clock that the test controls, a real database and a real
// receiver.
import t, { type Test } from 'tap';
import { AlertWatch } from '../../src/alerts/alert-watch.js';
import { budgetKey } from '../../src/alerts/budget-conditions.js';
import { SoleProcess } from '../../src/alerts/alert-store.js';
import { levelAbove, levelBelow } from '../../src/alerts/condition.js';
import type { Condition } from '../../src/alerts/condition.js';
import { Courier, pauseMs } from '../../src/alerts/courier.js';
import { Destinations } from '../../src/alerts/destinations.js';
import { RequestWindow } from '../../src/alerts/readings.js';
import { errorRate, latencies } from '../../src/alerts/request-conditions.js';
import { thresholdsOf } from '../../src/alerts/thresholds.js';
import { slackBody } from '../../src/alerts/message.js';
import { configWith } from '../../src/config/load.js';
import { openMailer } from '../../src/accounts/mail/mailer.js';
import type { AlertKind } from '../../src/shared/wire/alerts.js';
import type { LiveCollected } from '../../src/shared/live-collected.js';
import { LmdbAlertStore } from '../../src/storage/lmdb/alerts/alert-store.js';
import { latencyBucket, LATENCY_BUCKETS } from '../../src/telemetry/latency-counts.js';
import { createTelemetry } from '../../src/telemetry/telemetry.js';
import { eventually } from '../e2e/monolith.js';
import { webhookReceiver } from '../support/alert-receivers.js';
import type { WebhookReceiver } from '../support/alert-receivers.js';
import { ownStore } from '../support/own-store.js';

const CLEAR_S = 60;

interface Scene {
  hook: WebhookReceiver;
  /** Sets the conditions, advances the clock and runs a round. `unmeasured`: kinds that cannot be measured. */
  at(seconds: number, conditions: Condition[], unmeasured?: AlertKind[]): Promise<void>;
  /** Number of active incidents. */
  active(): Promise<number>;
  /** Repeats rounds until this many messages have arrived. */
  received(count: number): Promise<boolean>;
}

async function scene(t: Test, retryS = 0): Promise<Scene> {
  const hook = await webhookReceiver(t);
  const config = configWith({
    webhooks: { public_only: false },
    alerts: { slack: [hook.url], clear_s: CLEAR_S },
  });
  const telemetry = createTelemetry({ format: 'json', level: 'silent', write: () => undefined });
  const store = new LmdbAlertStore(await ownStore(t, 'alerts'));
  const destinations = new Destinations(config, openMailer(config.mail, telemetry.log));
  let now = 1_000_000;
  let conditions: Condition[] = [];
  let unmeasured: ReadonlySet<AlertKind> = new Set();
  const clock = (): number => now;
  const courier = new Courier({ store, destinations, telemetry, base: null, retryMs: retryS * 1000, now: clock });
  const watch = new AlertWatch(
    {
      store,
      processes: new SoleProcess('here'),
      courier,
      destinations: destinations.all,
      clearMs: CLEAR_S * 1000,
      read: async () => ({ requests: 0, serverErrors: 0, latencies: [], diskFreeBytes: null }),
      conditions: async () => ({ conditions, unmeasured }),
      skips: async () => () => null,
      telemetry,
      now: clock,
    },
    3_600_000,
  );
  t.teardown(async () => {
    await watch.close();
    await courier.close();
    await telemetry.close();
  });
  return {
    hook,
    at: async (seconds, given, kinds = []) => {
      now = 1_000_000 + seconds * 1000;
      conditions = given;
      unmeasured = new Set(kinds);
      await watch.run();
    },
    active: async () => (await store.open()).filter(({ endedAt }) => endedAt === null).length,
    received: (count) =>
      eventually(async () => {
        await watch.run();
        return hook.taken.length === count;
      }),
  };
}

const rate = (value: number): Condition => ({
  key: 'error_rate',
  kind: 'error_rate',
  level: levelBelow(value, 0.1),
  name: 'Error rate',
  value,
  threshold: 0.1,
  shownValue: String(value),
  shownThreshold: '0.1',
  note: null,
  now: `It is ${value}.`,
  ownNotice: null,
  describe: () => ({ title: `Rate ${value}`, what: `It is ${value}.`, process: null, lookAt: 'it' }),
});

const texts = ({ hook }: Scene): unknown[] => hook.bodies().map(({ text }) => String(text).split('\n')[0]);

t.test('a value near its threshold sends one alert, which ends only after it has been well within it', async (t) => {
  const it = await scene(t);
  await it.at(0, [rate(0.099)]);
  for (let at = 10; at < 100; at += 10) await it.at(at, [rate(at % 20 === 0 ? 0.11 : 0.09)]);
  t.ok(await it.received(1));
  // within the threshold, but not by the margin
  for (let at = 100; at < 300; at += 20) await it.at(at, [rate(0.085)]);
  await it.at(300, [rate(0.01)]);
  await it.at(350, [rate(0.01)]);
  await it.at(359, [rate(0.2)]); // the time starts again
  await it.at(370, [rate(0.01)]);
  await it.at(429, [rate(0.01)]);
  t.equal(it.hook.taken.length, 1);
  await it.at(430, [rate(0.01)]);
  t.ok(await it.received(2));
  t.same(texts(it), ['Monolith: Alert: Rate 0.11', 'Monolith: Alert ended: Rate 0.11']);
  await it.at(440, [rate(0.3)]);
  t.ok(await it.received(3), 'the next incident sends again');
});

t.test('an incident ends if its condition no longer exists', async (t) => {
  const it = await scene(t);
  await it.at(0, [rate(0.5)]);
  await it.at(10, []);
  await it.at(10 + CLEAR_S, []);
  t.ok(await it.received(1));
  await it.at(20 + CLEAR_S, []);
  t.ok(await it.received(2));
  t.match(it.hook.bodies()[1], { text: /Now: The error rate is no longer measured\./ });
});

t.test('the end waits for the beginning while that is not delivered', async (t) => {
  const it = await scene(t, 3_600);
  it.hook.status = 500;
  await it.at(0, [rate(0.5)]);
  t.ok(await it.received(1));
  await it.at(4, []);
  await it.at(6, []);
  t.ok(await it.received(2));
  await it.at(4 + CLEAR_S, []);
  t.ok(await it.received(3));
  it.hook.status = 204;
  await it.at(200, []);
  t.ok(await it.received(4));
  await it.at(201, []);
  t.ok(await it.received(5));
  t.same(texts(it).slice(3), ['Monolith: Alert: Rate 0.5', 'Monolith: Alert ended: Rate 0.5']);
});

t.test('levels have a margin, and pauses grow up to ten minutes', async (t) => {
  t.same(
    [0.11, 0.1, 0.081, 0.08, 0].map((value) => levelBelow(value, 0.1)),
    ['over', 'between', 'between', 'within', 'within'],
  );
  t.same(
    [9, 10, 11.9, 12].map((value) => levelAbove(value, 10)),
    ['over', 'between', 'between', 'within'],
  );
  t.same([1, 2, 3, 6, 60].map(pauseMs), [5_000, 15_000, 45_000, 600_000, 600_000]);
});

t.test('requests and latencies of all threads and processes add up, and leave the window', async (t) => {
  let now = 0;
  const window = new RequestWindow(300, new Set(['ttft'] as const), () => now);
  const counts = (ms: number, count: number): Uint32Array => {
    const all = new Uint32Array(LATENCY_BUCKETS);
    all[latencyBucket(ms)] = count;
    return all;
  };
  const thread = (apiRequests: number, serverErrors: number, ms: number): LiveCollected => ({
    requests: 0,
    apiRequests,
    serverErrors,
    rejected429: 0,
    rejected503: 0,
    errors: 0,
    cancelled: 0,
    loopLagMs: 0,
    latencies: [{ model: 'hal-1.0', ttft: counts(ms, apiRequests), itl: null, tpot: counts(1, 5), e2e: null }],
    keys: [],
    inFlight: 0,
    viewers: 0,
  });
  window.add([thread(10, 1, 100), thread(10, 0, 100)]);
  now = 200_000;
  window.add([thread(20, 3, 5_000)]);
  const thresholds = thresholdsOf(
    configWith({ alerts: { error_rate: 0.1, objectives: 'ttft_p40=1s,ttft_p90=1s,tpot_p99=1s', min_requests: 20 } })
      .alerts,
    false,
  );
  const seen = (name: string) => ({
    name,
    readings: { ...window.read(), diskFreeBytes: null },
    alive: true,
    leads: true,
    silentMs: 0,
  });
  const both = [seen('a'), seen('b')];
  t.match(errorRate(both, thresholds), [{ level: 'between', value: 0.1, shownValue: '10% of 80' }]);
  const measured = latencies(both, thresholds);
  t.match(measured, [
    { name: 'ttft_p40 of hal-1.0', level: 'within' },
    { name: 'ttft_p90 of hal-1.0', level: 'over' },
  ]);
  t.equal(measured.length, 2, 'a latency that is not counted has no condition');
  t.ok(Math.abs((measured[1]?.value ?? 0) / 5_000 - 1) < 0.06, `${measured[1]?.value} ms`);
  now = 305_000;
  t.match(window.read(), { requests: 20, serverErrors: 3 }, 'the oldest requests have left');
  now = 900_000;
  t.match(window.read(), { requests: 0, latencies: [] });
  t.match(errorRate([seen('a')], thresholds), [{ level: 'unknown', value: null }]);
});

t.test('names that users choose cannot mention everyone in Slack', async (t) => {
  t.same(slackBody({ subject: 'Budget of <!channel> & more', lines: ['x'.repeat(3_000)], body: {} }), {
    text: `Monolith: Budget of &lt;!channel&gt; &amp; more\n${'x'.repeat(1_800 - 'Monolith: Budget of <!channel> & more\n'.length)}`,
  });
});

const budget = (organization: string, id: string): Condition => ({
  ...rate(1),
  key: budgetKey('key', organization, id, '2026-11'),
  kind: 'budget',
  describe: () => ({ title: `Budget ${organization} ${id}`, what: 'It is spent.', process: null, lookAt: 'it' }),
});

t.test('budgets, which organizations choose, hold back no other alert', async (t) => {
  const it = await scene(t);
  const many = Array.from({ length: 250 }, (_, i) => budget('org_a', `key_${i}`));
  await it.at(0, many);
  await it.at(10, [...many, budget('org_b', 'key_1'), rate(0.5)]);
  t.ok(await it.received(12), 'ten of one organization, one of another, and the error rate');
  t.match(texts(it).join('\n'), /Budget org_b key_1/);
  t.match(texts(it).join('\n'), /Rate 0\.5/);
});

t.test('incidents of a kind that cannot be measured at the moment do not end', async (t) => {
  const it = await scene(t);
  await it.at(0, [budget('org_a', 'key_1')]);
  t.ok(await it.received(1));
  await it.at(10, [], ['budget']);
  await it.at(1_000, [], ['budget']);
  t.equal(await it.active(), 1);
  await it.at(1_010, []);
  await it.at(1_010 + CLEAR_S, []);
  t.ok(await it.received(2));
});

t.test('names cannot mention everyone', (t) => {
  const { text } = slackBody({ subject: '@channel & <!here>', lines: ['ada@example.com', '(@all)'], body: {} }) as {
    text: string;
  };
  t.equal(text, 'Monolith: @\u200bchannel &amp; &lt;!here&gt;\nada@example.com\n(@\u200ball)');
  t.end();
});
