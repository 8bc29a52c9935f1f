// Tests the arithmetic of budgets that stop requests: whose spending counts, when a budget is spent, and which of
// several spent budgets an error names. Usage is stored in a real LMDB database.
import t from 'tap';
import { BudgetGate } from '../../src/admission/budget-gate.js';
import type { KeyRecord } from '../../src/accounts/keys.js';
import type { SpentBudgets } from '../../src/shared/spent-budgets.js';
import type { PriceTable } from '../../src/shared/wire/usage.js';
import { LmdbUsageStore } from '../../src/storage/lmdb/usage/usage-store.js';
import { firstKeys, monthSpan, partStandings } from '../../src/usage/budget-standing.js';
import type { Budget } from '../../src/usage/budget-store.js';
import { SpentBudgetWatch } from '../../src/usage/spent-budget-watch.js';
import { ownStore } from '../support/own-store.js';
import { finished } from './usage-store.js';

const key = (id: string, createdBy: string | null, rotatedFrom: string | null = null): KeyRecord =>
  ({ id, createdBy, rotatedFrom }) as KeyRecord;
const none = { mail: false, webhookUrl: null, webhookSecret: '', told: null };

t.test('a rotated key shares the budget of the first key of its chain', (t) => {
  const keys = [key('key_c', 'user_b', 'key_b'), key('key_b', 'user_a', 'key_a'), key('key_a', 'user_a')];
  t.same(
    [...firstKeys(keys)],
    [
      ['key_c', 'key_a'],
      ['key_b', 'key_a'],
      ['key_a', 'key_a'],
    ],
  );
  t.same([...firstKeys([key('key_b', null, 'key_erased')])], [['key_b', 'key_erased']]);
  t.same([...firstKeys([key('key_a', null, 'key_b'), key('key_b', null, 'key_a')]).keys()], ['key_a', 'key_b']);
  const spent = new Map([
    ['key_a', 1],
    ['key_b', 2],
    ['key_c', 4],
    ['playground', 8],
  ]);
  t.same(partStandings({ members: { user_a: 5, user_x: 1 }, keys: { key_a: 7 } }, keys, spent), [
    { scope: 'member', id: 'user_a', amount: 5, spent: 3, keys: ['key_b', 'key_a'] },
    { scope: 'member', id: 'user_x', amount: 1, spent: 0, keys: [] },
    { scope: 'key', id: 'key_a', amount: 7, spent: 7, keys: ['key_c', 'key_b', 'key_a'] },
  ]);
  t.end();
});

t.test('a month has its first and its last hour, in UTC', (t) => {
  const hour = (time: string): number => Date.parse(time) / 3_600_000;
  t.same(monthSpan(Date.parse('2026-12-31T23:59:59Z')), {
    fromHour: hour('2026-12-01T00:00:00Z'),
    toHour: hour('2027-01-01T00:00:00Z'),
  });
  t.end();
});

t.test('the gate names the narrowest spent budget, and only in its month', (t) => {
  let now = Date.parse('2026-11-30T12:00:00Z');
  const gate = new BudgetGate(() => now);
  const asked = { organizationId: 'org_a', keyId: 'key_a' };
  gate.check(asked); // nothing is known yet
  const budget = (scope: 'organization' | 'member' | 'key', id: string) =>
    ({ scope, organizationId: 'org_a', id, amount: 10, spent: 11 }) as const;
  const spent: SpentBudgets = {
    month: 202611,
    currency: 'EUR',
    organizations: new Map([['org_a', budget('organization', 'org_a')]]),
    members: new Map([['org_a\nuser_a', budget('member', 'user_a')]]),
    keys: new Map([
      ['key_a', budget('key', 'key_a')],
      ['key_m', budget('member', 'user_a')],
    ]),
  };
  gate.update(spent);
  const refused = (message: RegExp) => ({ code: 'insufficient_quota', status: 429, shouldRetry: false, message });
  t.throws(() => gate.check(asked), refused(/^This API key has spent its budget of 10 EUR for 2026-11\..*2026-12-01/));
  t.throws(() => gate.check({ ...asked, keyId: 'key_m' }), refused(/^The member behind/));
  t.throws(() => gate.check({ ...asked, keyId: 'playground', userId: 'user_a' }), refused(/^The member behind/));
  t.throws(() => gate.check({ ...asked, keyId: 'playground', userId: 'user_b' }), refused(/^This organization/));
  gate.check({ organizationId: 'org_b', keyId: 'playground', userId: 'user_a' });
  t.same(
    gate.stoppedIn('org_a').budgets.map(({ scope, id }) => [scope, id]),
    [
      ['organization', 'org_a'],
      ['member', 'user_a'],
      ['key', 'key_a'],
    ],
  );
  t.same(gate.stoppedIn('org_b').budgets, []);
  now = Date.parse('2026-12-01T00:00:00Z');
  gate.check(asked);
  t.same(gate.stoppedIn('org_a').budgets, [], 'a new month begins with unspent budgets');
  t.end();
});

t.test(
  'the watch adds up a month by key, follows changes of prices and keys, and starts again with the month',
  async (t) => {
    const usage = new LmdbUsageStore(await ownStore(t, 'stopping'));
    let prices: PriceTable | null = {
      currency: 'EUR',
      models: { 'hal-1.0': { input: 2e6, cached_input: 5e5, output: 0 } },
    };
    let budgets = new Map<string, Budget>();
    let keys = [key('key_a', 'user_a')];
    let reads = 0;
    let changed: (organizationId: string | null) => void = () => undefined;
    let found: SpentBudgets | undefined;
    const errors: unknown[] = [];
    const counting = {
      rows: ((query, limit, after) => {
        reads += query.toHour - query.fromHour;
        return usage.rows(query, limit, after);
      }) as LmdbUsageStore['rows'],
    };
    const log = {
      debug: () => undefined,
      info: () => undefined,
      warn: () => undefined,
      error: (e: unknown) => errors.push(e),
    };
    const watch = new SpentBudgetWatch(
      {
        budgets: { all: () => Promise.resolve(budgets) },
        prices: { get: () => Promise.resolve(prices) },
        usage: counting,
        apiKeys: { page: () => Promise.resolve({ data: keys, next: null }) },
        changes: {
          on: (listener) => {
            changed = listener;
            return () => undefined;
          },
        },
        publish: (spent) => {
          found = spent;
        },
        log,
      },
      1e9,
    );
    t.teardown(() => watch.close());
    const begin = Date.parse('2026-11-01T00:00:00Z');
    const hour = 3_600_000;
    /** Input tokens cost 2 EUR each, except cached input tokens, which cost 0.5 EUR each. */
    const use = (at: number, keyId: string, inputTokens: number, cachedTokens = 0, model = 'hal-1.0'): Promise<void> =>
      usage.record([
        { usage: finished({ keyId, inputTokens, cachedTokens, outputTokens: 5, model, endedAt: at }), at },
      ]);
    const at = begin + 100 * hour;
    const spent = async (now = at): Promise<unknown> => {
      await watch.run(now);
      return {
        organizations: [...found!.organizations.keys()],
        keys: [...found!.keys].map(([id, { scope }]) => [id, scope]),
      };
    };
    const open = { organizations: [], keys: [] };

    await use(begin - 1, 'key_a', 1_000); // the month before
    await use(begin, 'key_a', 10, 10); // 5 EUR
    await use(at, 'key_a', 3, 1); // 4.5 EUR
    await use(at, 'key_a', 1_000, 0, 'unpriced');
    const stopping: Budget = { ...none, amount: 9.5, stops: true };
    budgets = new Map([['org_a', { ...stopping, stops: false }]]);
    t.same(await spent(), open, 'a budget that only notifies stops nothing');
    budgets = new Map([['org_a', { ...stopping, amount: 9.51 }]]);
    t.same(await spent(), open, 'cached tokens count at their own price');
    budgets = new Map([['org_a', stopping]]);
    t.same(await spent(), { organizations: ['org_a'], keys: [] }, 'a budget is spent when the amount is reached');
    reads = 0;
    await spent(at + hour);
    await spent(at + hour);
    t.ok(reads < 2 * 800, 'hours that are over are read once');
    const lastHours = reads;
    await use(at + hour, 'key_a', 1);
    budgets = new Map([['org_a', { ...stopping, amount: 11.5 }]]);
    t.same(await spent(at + hour), { organizations: ['org_a'], keys: [] }, 'spending is added to that of past hours');
    t.ok(lastHours > 0);

    budgets = new Map([['org_a', { ...none, amount: null, members: { user_a: 11.5 }, keys: { key_a: 20 } }]]);
    t.same(await spent(at + hour), { organizations: [], keys: [['key_a', 'member']] });
    keys = [key('key_b', 'user_b', 'key_a'), key('key_a', 'user_a')];
    await use(at + hour, 'key_b', 5); // 10 EUR
    t.same(await spent(at + hour), { organizations: [], keys: [['key_a', 'member']] });
    changed('org_a');
    t.same(
      await spent(at + hour),
      {
        organizations: [],
        keys: [
          ['key_a', 'key'],
          ['key_b', 'key'],
        ],
      },
      'a rotation is seen after the notification, and the narrowest budget is named',
    );
    prices = { currency: 'EUR', models: { 'hal-1.0': { input: 1, cached_input: 1, output: 1 } } };
    t.same(await spent(at + hour), open, 'new prices apply to the whole month');
    prices = null;
    t.same(await spent(at + hour), open, 'without prices nothing is spent');
    prices = { currency: 'EUR', models: { 'hal-1.0': { input: 2e6, cached_input: 0, output: 0 } } };
    budgets = new Map([['org_a', { ...stopping, amount: 10 }]]);
    t.same(await spent(at + hour), { organizations: ['org_a'], keys: [] });
    t.same(await spent(Date.parse('2026-12-01T00:00:00Z')), open, 'a new month begins at zero');
    t.same(errors, []);
  },
);
