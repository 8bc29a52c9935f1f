// Tests what one process admits on its own while the shared counters are unavailable, and the values from Redis that it
// caches. The tests do not connect to Redis.
import t from 'tap';
import type { Limited, Reservation, ReserveRequest } from '../../src/admission/admission.js';
import { COUNTER_BYTES } from '../../src/admission/counter-memory.js';
import { LimitScopes } from '../../src/admission/limit-scopes.js';
import { monthNumber } from '../../src/admission/month-use.js';
import { tableBytes } from '../../src/admission/record-table.js';
import { LocalQuota } from '../../src/admission/shared/local-quota.js';
import { Processes } from '../../src/admission/shared/processes.js';
import type { LimitSnapshot } from '../../src/admission/shared/limit-snapshot.js';
import { configWith } from '../../src/config/load.js';
import { refusal, atOnce } from '../support/admission.js';

const ORG: Limited = { organizationId: 'org_a', limits: {}, keyId: 'key_a', keyLimits: null, monthlyTokenCap: null };
const NOVEMBER = Date.parse('2026-11-15T00:00:00Z');
const EMPTY: LimitSnapshot = { rpmUs: 0, tpmUs: 0, count: 0, meanMs: 0 };
const ask = (more: Partial<ReserveRequest> = {}): ReserveRequest => ({
  identity: ORG,
  model: 'm',
  promptTokens: { tokens: 10, exact: true },
  statedCap: 10,
  modelMaximum: 100,
  n: 1,
  ...more,
});

function share(
  limits: object,
  { others = 1, records = 0, stored = 0 }: { others?: number; records?: number; stored?: number } = {},
): { own: LocalQuota; gates: LimitScopes } {
  const settings = configWith({ limits: { rpm: null, tpm: null, concurrency: null, ...limits } }).limits;
  const processes = new Processes('p0');
  processes.see(Array.from({ length: others }, (_, at) => `q${at}`));
  const buffer = new SharedArrayBuffer(records === 0 ? COUNTER_BYTES : tableBytes(records));
  return {
    own: new LocalQuota(settings, {
      processes,
      buffer,
      storedMonth: () => Promise.resolve(stored),
      wall: () => NOVEMBER,
    }),
    gates: new LimitScopes(settings),
  };
}
const reserve = (own: LocalQuota, more: Partial<ReserveRequest> = {}): Reservation => atOnce(own.reserve(ask(more)));

t.test('a process admits its share of each limit; only a prompt above the whole limit is refused for good', (t) => {
  const { own } = share({ rpm: 6, tpm: 200, concurrency: 4 });
  t.match(
    refusal(() => reserve(own, { promptTokens: { tokens: 201, exact: true } })),
    { code: 'request_exceeds_tpm_limit', shouldRetry: false, message: /201 tokens/ },
  );
  const whole = reserve(own, { promptTokens: { tokens: 200, exact: true }, statedCap: 0 });
  t.match(Object.fromEntries(whole.headers('chat')), {
    'x-ratelimit-limit-tokens': '100',
    'x-ratelimit-remaining-tokens': '0',
    'x-ratelimit-limit-concurrency': '2',
    'x-ratelimit-remaining-concurrency': '1',
  });
  t.match(
    refusal(() => reserve(own)),
    { code: 'tpm_limit_exceeded' },
  );
  whole.settle(200);
  const guessed = share({ tpm: 200 });
  reserve(guessed.own, { promptTokens: { tokens: 900, exact: false } }).refund();
  t.end();
});

t.test("a limit too small to divide is refused, for each of the three kinds and for the key's limits", (t) => {
  for (const one of ['rpm', 'tpm', 'concurrency'] as const) {
    // This process's name sorts first, so it gets the only unit of the limit.
    reserve(share({ [one]: 1 }, { others: 2 }).own, { promptTokens: { tokens: 1, exact: true } }).refund();
  }
  const settings = configWith({ limits: { rpm: null, tpm: null, concurrency: null } }).limits;
  const last = new Processes('z');
  last.see(['a', 'b']);
  const own = new LocalQuota(settings, {
    processes: last,
    buffer: new SharedArrayBuffer(COUNTER_BYTES),
    storedMonth: () => Promise.resolve(0),
    wall: () => NOVEMBER,
  });
  for (const one of ['rpm', 'tpm', 'concurrency'] as const) {
    const identity = { ...ORG, keyLimits: { m: { [one]: 2 } } };
    t.match(
      refusal(() => reserve(own, { identity, promptTokens: { tokens: 1, exact: true } })),
      {
        status: 503,
        code: 'capacity_exhausted',
        retryAfterMs: 1_000,
        message: /the limit of the API key on m is too small/,
      },
      one,
    );
    reserve(own, {
      identity: { ...ORG, keyLimits: { m: { [one]: 3 } } },
      promptTokens: { tokens: 1, exact: true },
      statedCap: 0,
    }).refund();
  }
  t.end();
});

t.test('requests admitted by Redis are counted until they end', (t) => {
  const { own, gates } = share({ rpm: 60, tpm: 600, concurrency: 10 }, { others: 0 });
  const of = gates.of({ ...ORG, keyLimits: { m: { tpm: 300 } } }, 'm');
  const state = () => own.local.standing(ORG, 'm');
  const left = (): (number | undefined)[] => [
    state().state.requests?.remaining,
    state().state.tokens?.remaining,
    state().unfinished,
  ];
  const one = own.mirror({
    scopes: of,
    seen: [
      { ...EMPTY, rpmUs: 30_000_000, tpmUs: 20_000_000 },
      { ...EMPTY, tpmUs: 10_000_000 },
    ],
    reserved: [100, 100],
    n: 3,
    organizationId: 'org_a',
    monthUsed: null,
  });
  t.same(left(), [30, 400, 3]);
  one.leave({ tokens: 40, refunded: false });
  t.same(left(), [30, 460, 0], '60 tokens were returned and the request stays counted');
  const other = own.mirror({
    scopes: of,
    seen: [{ ...EMPTY, rpmUs: 30_000_000, tpmUs: 20_000_000 }, EMPTY],
    reserved: [100, 100],
    n: 1,
    organizationId: 'org_a',
    monthUsed: null,
  });
  other.leave({ tokens: 0, refunded: true });
  t.same(left(), [31, 500, 0], 'a refund returned the tokens and the request');
  const missing = new Map<number, [number, number]>();
  own.forEachAhead((_key, rpmUs, tpmUs) =>
    missing.set(missing.size, [Math.round(rpmUs / 1e6), Math.round(tpmUs / 1e6)]),
  );
  t.same([...missing.values()], [[29, 10]], 'each bucket that is not full is listed with its missing amount');
  t.end();
});

t.test(
  'the last known monthly use and running requests are kept, and the process may use its share of the remainder',
  async (t) => {
    const { own, gates } = share({}, { others: 1, stored: 5 });
    const capped = { ...ORG, monthlyTokenCap: 1_000 };
    const one = own.mirror({
      scopes: gates.of(capped, 'm'),
      seen: [EMPTY],
      reserved: [0],
      n: 1,
      organizationId: 'org_a',
      monthUsed: 800,
    });
    one.leave({ tokens: 60, refunded: false });
    own
      .mirror({
        scopes: gates.of(capped, 'm'),
        seen: [EMPTY],
        reserved: [0],
        n: 1,
        organizationId: 'org_a',
        monthUsed: null,
      })
      .leave({ tokens: 9, refunded: true });
    reserve(own, { identity: capped }).settle(69);
    reserve(own, { identity: capped }).settle(1);
    t.match(
      refusal(() => reserve(own, { identity: capped })),
      { status: 503, code: 'capacity_exhausted', message: /share of its 1000 tokens/ },
      'the process may use 70 of the 140 remaining tokens',
    );
    own.over();
    reserve(own, { identity: capped }).settle(70);
    t.match(
      refusal(() => reserve(own, { identity: capped })),
      { code: 'insufficient_quota', message: /1000 tokens for 2026-11/ },
      'the request is refused once the share of the remaining monthly tokens is used up',
    );
    t.equal(monthNumber(NOVEMBER), 202611);
    const later = { ...capped, organizationId: 'org_b' };
    const first = own.reserve(ask({ identity: later }));
    t.ok(first instanceof Promise, 'a month without a known total is looked up');
    (await first).settle(0);
    t.equal(own.local.unfinished(), 0);
  },
);

t.test('in a full table, requests admitted by Redis are not counted and nothing fails', (t) => {
  const { own, gates } = share({ rpm: 60 }, { records: 1 });
  const held = own.mirror({
    scopes: gates.of({ ...ORG, organizationId: 'org_b' }, 'm'),
    seen: [{ ...EMPTY, rpmUs: 60_000_000 }],
    reserved: [0],
    n: 2,
    organizationId: 'org_b',
    monthUsed: null,
  });
  const none = own.mirror({
    scopes: gates.of(ORG, 'm'),
    seen: [{ ...EMPTY, rpmUs: 1 }],
    reserved: [0],
    n: 1,
    organizationId: 'org_a',
    monthUsed: 5,
  });
  none.leave({ tokens: 3, refunded: false });
  t.equal(own.local.unfinished(), 2);
  t.match(
    refusal(() => reserve(own, { identity: { ...ORG, monthlyTokenCap: 5 } })),
    { code: 'capacity_exhausted', message: /maximum number of organizations/ },
  );
  held.leave({ tokens: 3, refunded: false });
  t.equal(own.local.unfinished(), 0);
  t.end();
});
