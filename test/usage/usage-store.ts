// Tests that every implementation of UsageStore must pass.
import t, { type Test } from 'tap';
import type { FinishedUsage, RejectedUsage } from '../../src/shared/usage-sink.js';
import { HOUR_MS } from '../../src/usage/sums.js';
import type { UsageCursor, UsageEntry, UsageQuery, UsageRows, UsageStore } from '../../src/usage/usage-store.js';

export const NOW = Date.parse('2026-11-21T10:30:00Z');
const HOUR = Math.floor(NOW / HOUR_MS);
const DAY = 24 * HOUR_MS;

export const finished = (more: Partial<FinishedUsage> = {}): FinishedUsage => ({
  requestId: 'req_1',
  organizationId: 'org_a',
  keyId: 'key_a',
  model: 'hal-1.0',
  endpoint: '/v1/chat/completions',
  stream: false,
  status: 'completed',
  receivedAt: NOW - 50,
  startedAt: NOW - 40,
  firstTokenAt: NOW - 30,
  endedAt: NOW,
  inputTokens: 100,
  cachedTokens: 60,
  outputTokens: 10,
  reasoningTokens: 4,
  images: 1,
  finishReason: 'end_of_turn',
  errorCode: null,
  ...more,
});

export const query = (more: Partial<UsageQuery> = {}): UsageQuery => ({
  organizationId: 'org_a',
  fromHour: HOUR - 48,
  toHour: HOUR + 48,
  bucket: 'hour',
  groupBy: [],
  models: null,
  apiKeys: null,
  prices: null,
  ...more,
});

const ran = (more: Partial<FinishedUsage> = {}): UsageEntry => ({ usage: finished(more), at: more.endedAt ?? NOW });
const refused = (more: Partial<RejectedUsage> = {}): UsageEntry => ({
  usage: {
    organizationId: 'org_a',
    keyId: 'key_a',
    model: 'hal-1.0',
    endpoint: '/v1/messages',
    status: 400,
    code: 'invalid_json',
    ...more,
  },
  at: NOW,
});
const go = new AbortController().signal;

/** `open` returns a new, empty store that is removed when the test ends. */
export function usageStoreTests(open: (t: Test) => Promise<UsageStore>): void {
  t.test('concurrent usage writes add up in the hourly sums and in the month', async (t) => {
    const store = await open(t);
    await Promise.all(
      [1, 2, 3].map(async (thread) => {
        for (let batch = 0; batch < 5; batch++)
          await store.record(
            Array.from({ length: 100 }, (_, at) => ran({ requestId: `req_${thread}_${batch}_${at}` })),
          );
      }),
    );
    t.match((await store.rows(query(), 10, null)).rows, [{ requests: 1_500, input_tokens: 150_000 }]);
    t.same(await store.monthTokens(['org_b', 'org_a', ''], '2026-11'), [0, 165_000, 0]);
    t.same(await store.monthTokens(['org_a'], '2026-12'), [0]);
    t.same(await store.monthTokens([], '2026-11'), []);
    t.equal(await store.erase({ rows: NOW + 1, sums: 0 }, go), 1_500, 'each request has its own row');
  });

  t.test('usage is reported by day and hour, grouped, filtered and in pages', async (t) => {
    const store = await open(t);
    const models = ['hal-1.0', 'clarke-1.0'];
    const keys = ['key_a', 'key_b', 'key_c'];
    const entries: UsageEntry[] = [];
    for (let hour = 0; hour < 30; hour++)
      for (const model of models)
        for (const keyId of keys) entries.push(ran({ model, keyId, endedAt: NOW + (hour - 20) * HOUR_MS }));
    await store.record([...entries, ran({ organizationId: 'org_aa' }), ran({ organizationId: 'org_B' })]);

    const all = await store.rows(query(), 1_000, null);
    t.equal(all.rows.length, 30);
    t.ok(all.rows.every(({ requests }) => requests === 6));
    const days = await store.rows(query({ bucket: 'day', fromHour: Math.floor((HOUR - 48) / 24) * 24 }), 1_000, null);
    t.same(
      days.rows.map(({ bucket_start, requests }) => [bucket_start, requests]),
      [
        ['2026-11-20T00:00:00.000Z', 60],
        ['2026-11-21T00:00:00.000Z', 120],
      ],
    );
    const span = await store.rows(query({ fromHour: HOUR - 1, toHour: HOUR + 1 }), 1_000, null);
    t.same(
      span.rows.map(({ bucket_start }) => bucket_start),
      ['2026-11-21T09:00:00.000Z', '2026-11-21T10:00:00.000Z'],
      'fromHour is inclusive and toHour is exclusive',
    );
    const one = await store.rows(
      query({ models: ['hal-1.0'], apiKeys: ['key_a', 'key_c', 'key_z'], groupBy: ['api_key'] }),
      1_000,
      null,
    );
    t.equal(one.rows.length, 60);
    t.match(one.rows[0], { model: null, api_key_id: 'key_a', endpoint: null, requests: 1 });

    const keyOwners = new Map([
      ['key_a', 'user_1'],
      ['key_b', 'user_1'],
    ]);
    const ofMembers = query({ bucket: 'day', fromHour: HOUR, toHour: HOUR + 1, groupBy: ['member'], keyOwners });
    t.same(
      (await store.rows(ofMembers, 1_000, null)).rows.map(({ member_id, api_key_id, requests }) => [
        member_id,
        api_key_id,
        requests,
      ]),
      [
        ['none', null, 2],
        ['user_1', null, 4],
      ],
      'keys count for the member who created them',
    );

    const whole = await store.rows(query({ groupBy: ['model', 'api_key', 'endpoint'] }), 1_000, null);
    t.equal(whole.rows.length, 180);
    const paged: unknown[] = [];
    let pages = 0;
    for (let after: UsageCursor | null = null; ; pages++) {
      const page: UsageRows = await store.rows(query({ groupBy: ['model', 'api_key', 'endpoint'] }), 7, after);
      paged.push(...page.rows);
      if (page.next === null) break;
      after = page.next;
    }
    t.equal(pages, 25);
    t.same(paged, whole.rows, 'the pages together equal the complete result');

    const totals = await store.totals(
      { fromHour: HOUR - 48, toHour: HOUR + 48 },
      ['org_aa', 'org_a', 'org_none'],
      null,
    );
    t.same(totals.map(({ organization_id, model, requests }) => [organization_id, model, requests]).sort(), [
      ['org_a', 'clarke-1.0', 90],
      ['org_a', 'hal-1.0', 90],
      ['org_aa', 'hal-1.0', 1],
    ]);
  });

  t.test('costs use current prices, with a separate price for cached tokens', async (t) => {
    const store = await open(t);
    await store.record([ran(), ran({ model: 'clarke-1.0' }), ran({ model: 'free' })]);
    const prices = {
      currency: 'EUR',
      models: {
        'hal-1.0': { input: 1_000, cached_input: 100, output: 50_000 },
        'clarke-1.0': { input: 1, cached_input: 1, output: 1 },
      },
    };
    const hal = (40 * 1_000 + 60 * 100 + 10 * 50_000) / 1e6;
    const { rows } = await store.rows(query({ prices, groupBy: ['model'] }), 10, null);
    t.same(rows.map(({ model, cost }) => [model, cost]).sort(), [
      ['clarke-1.0', 110 / 1e6],
      ['free', null],
      ['hal-1.0', hal],
    ]);
    t.equal(
      (await store.rows(query({ prices }), 10, null)).rows[0]!.cost,
      hal + 110 / 1e6,
      'a model without a price is not included in the cost',
    );
    t.equal((await store.rows(query(), 10, null)).rows[0]!.cost, null);
    t.same(
      (await store.totals({ fromHour: HOUR, toHour: HOUR + 1 }, ['org_a'], prices)).map(({ cost }) => cost).sort(),
      [110 / 1e6, hal, null],
    );
  });

  t.test('thousands of usage entries in one bucket add up', async (t) => {
    const store = await open(t);
    await store.record(Array.from({ length: 3_500 }, (_, at) => refused({ keyId: `key_${at}` })));
    const { rows } = await store.rows(query({ bucket: 'day' }), 10, null);
    t.equal(
      rows.reduce((sum, { errors }) => sum + errors, 0),
      3_500,
    );
  });

  t.test('usage rows and sums are removed after their retention', async (t) => {
    const store = await open(t);
    for (const [organizationId, days] of [
      ['org_a', 0],
      ['org_a', 20],
      ['org_b', 95],
      ['org_b', 800],
      ['org_c', 800],
    ] as const) {
      await store.record(Array.from({ length: 600 }, () => ran({ organizationId, endedAt: NOW - days * DAY })));
    }
    const before = { rows: NOW - 90 * DAY, sums: NOW - 730 * DAY };
    const stopped = new AbortController();
    stopped.abort();
    t.equal(await store.erase(before, stopped.signal), 0, 'an aborted sweep removes nothing');
    t.equal(
      await store.erase(before, go),
      1_800 + 2 + 2 + 2,
      'request rows, hourly sums, monthly sums and latency hours are removed',
    );
    t.equal(await store.erase(before, go), 0);
    const span = { fromHour: 0, toHour: HOUR + 1 };
    t.same(
      (await store.totals(span, ['org_a', 'org_b', 'org_c'], null)).map(({ organization_id, requests }) => [
        organization_id,
        requests,
      ]),
      [
        ['org_a', 1_200],
        ['org_b', 600],
      ],
    );
    t.same(await store.monthTokens(['org_a', 'org_b', 'org_c'], '2024-09'), [0, 0, 0]);
    t.same(await store.monthTokens(['org_b'], '2026-08'), [66_000]);
    t.equal(await store.erase({ rows: NOW + 1, sums: 0 }, go), 1_200, 'the remaining request rows are removed');
  });
}
