import assert from 'node:assert/strict';
import t from 'tap';
import type { Limited, Reservation, ReserveRequest } from '../../src/admission/admission.js';
import { COUNTER_BYTES, ledgerBytes, ledgerOf } from '../../src/admission/counter-memory.js';
import { duration } from '../../src/admission/headers.js';
import { LocalAdmission } from '../../src/admission/local-admission.js';
import { MonthUse, monthNumber, type StoredMonth } from '../../src/admission/month-use.js';
import { RecordTable, tableBytes } from '../../src/admission/record-table.js';
import { configWith } from '../../src/config/load.js';
import { refusal, atOnce, clockStart } from '../support/admission.js';

const identity = (more: Partial<Limited> = {}): Limited => ({
  organizationId: 'org_a',
  limits: {},
  keyId: 'key_a',
  keyLimits: null,
  monthlyTokenCap: null,
  ...more,
});
const ORG = identity();

/** Creates an admission object whose clock the test controls. */
function gate(limits: object): { admission: LocalAdmission; pass(ms: number): void } {
  let now = clockStart(5_000_000_000_000n);
  const admission = new LocalAdmission(configWith({ limits }).limits, { now: () => now });
  return {
    admission,
    pass: (ms) => {
      now += BigInt(Math.round(ms * 1e6));
    },
  };
}

const reserve = (admission: LocalAdmission, request: ReserveRequest): Reservation => atOnce(admission.reserve(request));

const ask = ({
  promptTokens = 100,
  exact = true,
  ...more
}: Partial<Omit<ReserveRequest, 'promptTokens'>> & {
  promptTokens?: number;
  exact?: boolean;
} = {}): ReserveRequest => ({
  identity: ORG,
  model: 'm',
  promptTokens: { tokens: promptTokens, exact },
  statedCap: 500,
  modelMaximum: 8192,
  n: 1,
  ...more,
});
const values = (admission: LocalAdmission): Record<string, string> =>
  Object.fromEntries(admission.headers(ORG, 'm', 'chat'));

t.test('settling returns the unused tokens of a reservation: of 620 reserved and 207 used, 413 are returned', (t) => {
  const { admission } = gate({});
  const reservation = reserve(admission, ask({ promptTokens: 120 }));
  t.same(Object.fromEntries(reservation.headers('chat')), {
    'x-ratelimit-limit-requests': '9999',
    'x-ratelimit-remaining-requests': '9998',
    'x-ratelimit-reset-requests': '7ms',
    'x-ratelimit-limit-tokens': '999999',
    'x-ratelimit-remaining-tokens': '999379',
    'x-ratelimit-reset-tokens': '38ms',
    'x-ratelimit-limit-concurrency': '99',
    'x-ratelimit-remaining-concurrency': '98',
  });
  reservation.settle(207);
  t.equal(values(admission)['x-ratelimit-remaining-tokens'], '999792');
  t.equal(values(admission)['x-ratelimit-remaining-concurrency'], '99');
  t.equal(values(admission)['x-ratelimit-remaining-requests'], '9998', 'the request itself stays counted');
  reservation.settle(207);
  reservation.refund();
  t.equal(values(admission)['x-ratelimit-remaining-tokens'], '999792', 'a second settle does nothing');
  t.equal(values(admission)['x-ratelimit-remaining-concurrency'], '99');
  t.end();
});

t.test('reserves the default number of output tokens if the request sets no maximum', (t) => {
  const reserved = (more: object): number =>
    999_999 -
    Number(
      Object.fromEntries(reserve(gate({ tpm_default_reservation: 1000 }).admission, ask(more)).headers('chat'))[
        'x-ratelimit-remaining-tokens'
      ],
    );
  t.equal(reserved({ statedCap: null }), 1100);
  t.equal(reserved({ statedCap: null, modelMaximum: 300 }), 400);
  t.equal(reserved({ n: 4 }), 2100);
  t.end();
});

t.test('a refund restores all counters', (t) => {
  const { admission } = gate({});
  const before = values(admission);
  reserve(admission, ask()).refund();
  t.same(values(admission), before);
  t.end();
});

t.test('1,000 refused requests leave every counter unchanged', (t) => {
  for (const [limits, code] of [
    [{ concurrency: 1 }, 'concurrency_limit_exceeded'],
    [{ rpm: 1 }, 'rpm_limit_exceeded'],
    [{ tpm: 700 }, 'tpm_limit_exceeded'],
    [{ tpm: 50 }, 'request_exceeds_tpm_limit'],
  ] as const) {
    const { admission } = gate(limits);
    if (code !== 'request_exceeds_tpm_limit') reserve(admission, ask());
    const before = values(admission);
    for (let i = 0; i < 1000; i++) assert.equal(refusal(() => reserve(admission, ask())).code, code);
    t.same(values(admission), before, code);
  }
  t.end();
});

t.test('Retry-After is exactly the time until the bucket holds the request', (t) => {
  const { admission, pass } = gate({ rpm: 60, tpm: 6000, concurrency: null });
  for (let i = 0; i < 6; i++) reserve(admission, ask({ promptTokens: 500 })).settle(1000);
  const error = refusal(() => reserve(admission, ask({ promptTokens: 500 })));
  t.match(error, {
    status: 429,
    code: 'tpm_limit_exceeded',
    retryAfterMs: 10_000,
    param: null,
    shouldRetry: undefined,
  });
  pass(9_999);
  t.equal(refusal(() => reserve(admission, ask({ promptTokens: 500 }))).code, 'tpm_limit_exceeded');
  pass(2);
  reserve(admission, ask({ promptTokens: 500 }));
  t.end();
});

t.test("a settlement returns tokens to the bucket's current level", (t) => {
  const { admission, pass } = gate({ tpm: 6_000 });
  const long = reserve(admission, ask({ promptTokens: 50, statedCap: 50 }));
  pass(60_000);
  long.settle(1_100);
  t.equal(
    values(admission)['x-ratelimit-remaining-tokens'],
    '5000',
    'a bucket that was full in the meantime does not make up for use beyond the reservation',
  );
  const short = reserve(admission, ask({ promptTokens: 1_000, statedCap: 1_000 }));
  t.equal(values(admission)['x-ratelimit-remaining-tokens'], '3000');
  pass(5_000);
  short.settle(200);
  t.equal(values(admission)['x-ratelimit-remaining-tokens'], '5300');
  t.end();
});

t.test('unfinished requests are counted per organization and model', (t) => {
  // The table has a single record, because the record at index 0 must be distinguishable from a missing record.
  const admission = new LocalAdmission(configWith({}).limits, { buffer: new SharedArrayBuffer(tableBytes(1)) });
  t.equal(admission.standing(ORG, 'hal-1.0').unfinished, 0);
  const reservation = reserve(admission, ask({ n: 3 }));
  t.equal(admission.standing(ORG, ask().model).unfinished, 3);
  t.equal(
    admission.standing(identity({ organizationId: 'org_b' }), ask().model).unfinished,
    0,
    'other organizations have no unfinished requests',
  );
  t.equal(admission.standing(ORG, ask().model).state.concurrency?.remaining, configWith({}).limits.concurrency! - 3);
  reservation.settle(1);
  t.equal(admission.standing(ORG, ask().model).unfinished, 0);
  t.end();
});

t.test('the request bucket refills at limit / 60 per second', (t) => {
  const { admission, pass } = gate({ rpm: 60, tpm: null });
  for (let i = 0; i < 60; i++) reserve(admission, ask()).settle(1);
  t.equal(refusal(() => reserve(admission, ask())).retryAfterMs, 1000);
  pass(1001);
  reserve(admission, ask());
  t.equal(refusal(() => reserve(admission, ask())).code, 'rpm_limit_exceeded');
  t.end();
});

t.test(
  'a request larger than the token bucket takes all of it; a prompt larger than the limit can never be admitted',
  (t) => {
    const { admission } = gate({ tpm: 1000 });
    t.equal(refusal(() => reserve(admission, ask({ promptTokens: 1001 }))).shouldRetry, false);
    const large = reserve(admission, ask({ promptTokens: 900, statedCap: 5000 }));
    t.equal(values(admission)['x-ratelimit-remaining-tokens'], '0');
    large.settle(3000);
    t.equal(values(admission)['x-ratelimit-remaining-tokens'], '0', 'a level below zero is shown as 0');
    t.equal(values(admission)['x-ratelimit-reset-tokens'], '3m0s', 'the reset time includes the overdraft');
    t.end();
  },
);

t.test('the estimated prompt size is reserved and corrected to the actual size, in both directions', (t) => {
  const { admission } = gate({ tpm: 1000 });
  const remaining = (): string | undefined => values(admission)['x-ratelimit-remaining-tokens'];
  const over = reserve(admission, ask({ promptTokens: 300, exact: false, statedCap: 100 }));
  t.equal(remaining(), '600');
  over.settle(20 + 50);
  t.equal(remaining(), '930');
  const under = reserve(admission, ask({ promptTokens: 20, exact: false, statedCap: 100 }));
  t.equal(remaining(), '810');
  under.settle(300 + 50);
  t.equal(remaining(), '580');
  t.end();
});

t.test(
  'an estimate above the limit takes the whole bucket instead of being refused for good, because it may be wrong',
  (t) => {
    const { admission } = gate({ tpm: 1000 });
    const guessed = reserve(admission, ask({ promptTokens: 5000, exact: false }));
    t.equal(values(admission)['x-ratelimit-remaining-tokens'], '0');
    guessed.settle(400);
    t.match(
      refusal(() => reserve(admission, ask({ promptTokens: 5000, exact: false }))),
      { code: 'tpm_limit_exceeded' },
      'the request can be admitted once the bucket holds that much',
    );
    t.equal(values(admission)['x-ratelimit-remaining-tokens'], '600');
    t.end();
  },
);

t.test('`n` counts as n for concurrency and as one request', (t) => {
  const { admission } = gate({ concurrency: 4 });
  const three = reserve(admission, ask({ n: 3 }));
  t.equal(values(admission)['x-ratelimit-remaining-concurrency'], '1');
  t.equal(values(admission)['x-ratelimit-remaining-requests'], '9998');
  t.match(
    refusal(() => reserve(admission, ask({ n: 2 }))),
    { code: 'concurrency_limit_exceeded', retryAfterMs: 1000 },
  );
  three.settle(1);
  reserve(admission, ask({ n: 4 }));
  t.end();
});

t.test('disabled limits send no headers; specific overrides take precedence over general ones', (t) => {
  const { admission } = gate({
    rpm: null,
    tpm: null,
    overrides: { org_a: { big: { tpm: 10 } }, '*': { big: { rpm: 5, concurrency: null } } },
  });
  t.same(Object.keys(values(admission)), ['x-ratelimit-limit-concurrency', 'x-ratelimit-remaining-concurrency']);
  t.same(admission.limitsOf(ORG, 'big'), { rpm: 5, tpm: 10, concurrency: null });
  t.same(admission.limitsOf(identity({ organizationId: 'org_b' }), 'big'), { rpm: 5, tpm: null, concurrency: null });
  for (let i = 0; i < 5; i++)
    reserve(admission, ask({ model: 'big', n: 99, promptTokens: 1, identity: identity({ organizationId: 'org_b' }) }));
  t.equal(
    refusal(() => reserve(admission, ask({ model: 'big', identity: identity({ organizationId: 'org_b' }) }))).code,
    'rpm_limit_exceeded',
  );
  t.end();
});

t.test('organizations and models are counted separately, and refusals have the headers of both API formats', (t) => {
  const { admission } = gate({ rpm: 1 });
  reserve(admission, ask());
  reserve(admission, ask({ model: 'other' }));
  reserve(admission, ask({ identity: identity({ organizationId: 'org_b' }) }));
  const error = refusal(() => reserve(admission, ask()));
  t.equal(Object.fromEntries(error.headers?.('chat') ?? [])['x-ratelimit-remaining-requests'], '0');
  const messages = Object.fromEntries(error.headers?.('messages') ?? []);
  t.equal(messages['anthropic-ratelimit-requests-limit'], '1');
  t.match(messages['anthropic-ratelimit-requests-reset'], /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  t.end();
});

t.test("an operator's limits for an organization take precedence over the settings", (t) => {
  const { admission } = gate({ rpm: 100, tpm: 1000, overrides: { org_a: { m: { rpm: 50, tpm: 500 } } } });
  t.same(admission.limitsOf(identity({ limits: { m: { rpm: 7 }, '*': { tpm: null, rpm: 8 } } }), 'm'), {
    rpm: 7,
    tpm: null,
    concurrency: 99,
  });
  t.same(admission.limitsOf(identity({ limits: { '*': { rpm: null } } }), 'other'), {
    rpm: null,
    tpm: 1000,
    concurrency: 99,
  });
  t.end();
});

t.test('a changed limit applies immediately, and the bucket keeps its fill ratio', (t) => {
  const { admission } = gate({ tpm: null, concurrency: null });
  const at = (rpm: number | null): Limited => identity({ limits: { m: { rpm } } });
  for (let i = 0; i < 50; i++) reserve(admission, ask({ identity: at(100) })).settle(1);
  const remaining = (rpm: number): string | undefined =>
    Object.fromEntries(admission.headers(at(rpm), 'm', 'chat'))['x-ratelimit-remaining-requests'];
  t.equal(remaining(100), '50');
  t.equal(remaining(10), '5', 'a bucket of a smaller limit stays half full');
  for (let i = 0; i < 5; i++) reserve(admission, ask({ identity: at(10) })).settle(1);
  t.equal(refusal(() => reserve(admission, ask({ identity: at(10) }))).code, 'rpm_limit_exceeded');
  reserve(admission, ask({ identity: at(null) }));
  const running = reserve(admission, ask({ identity: at(null) }));
  running.refund();
  t.equal(remaining(10), '0', 'quota that was used does not come back');
  t.end();
});

t.test('a key with limits has a second scope: both must admit, and a refusal takes nothing from either', (t) => {
  const { admission, pass } = gate({ rpm: 10, tpm: 10_000, concurrency: 10 });
  const bound = identity({ keyId: 'key_b', keyLimits: { m: { rpm: 2, concurrency: 1 }, '*': { tpm: 2_000 } } });
  const other = identity({ keyId: 'key_c' });
  const first = reserve(admission, ask({ identity: bound, promptTokens: 500 }));
  t.match(
    Object.fromEntries(first.headers('chat')),
    {
      'x-ratelimit-limit-requests': '2',
      'x-ratelimit-remaining-requests': '1',
      'x-ratelimit-limit-tokens': '2000',
      'x-ratelimit-remaining-tokens': '1000',
      'x-ratelimit-limit-concurrency': '1',
      'x-ratelimit-remaining-concurrency': '0',
    },
    'headers show the tighter limit',
  );
  const before = values(admission);
  const full = refusal(() => reserve(admission, ask({ identity: bound })));
  t.match(full, { code: 'concurrency_limit_exceeded', message: /This API key/ });
  t.equal(Object.fromEntries(full.headers?.('chat') ?? [])['x-ratelimit-remaining-concurrency'], '0');
  t.same(values(admission), before, "the organization's counters are unchanged");
  first.settle(500);
  t.equal(refusal(() => reserve(admission, ask({ identity: bound, promptTokens: 1_900 }))).code, 'tpm_limit_exceeded');
  reserve(admission, ask({ identity: bound, promptTokens: 1, statedCap: 1 })).settle(2);
  const tired = refusal(() => reserve(admission, ask({ identity: bound, promptTokens: 1_900, statedCap: 1 })));
  t.match(tired, { code: 'rpm_limit_exceeded', message: /this API key/ });
  t.ok((tired.retryAfterMs ?? 0) >= 30_000, "Retry-After covers the key's own request limit");
  t.match(values(admission), { 'x-ratelimit-remaining-requests': '8', 'x-ratelimit-remaining-concurrency': '10' });
  reserve(admission, ask({ identity: other })).settle(1);
  // The organization's own limit applies to the key as well.
  pass(60_000);
  for (let i = 0; i < 10; i++) reserve(admission, ask({ identity: other, promptTokens: 1, statedCap: 1 })).settle(1);
  t.match(
    refusal(() => reserve(admission, ask({ identity: bound }))),
    { code: 'rpm_limit_exceeded', message: /this organization/ },
  );
  t.equal(admission.unfinished(), 0);
  t.end();
});

t.test('Retry-After covers every bucket that the request needs', (t) => {
  const { admission } = gate({ rpm: 60, tpm: 6_000 });
  for (let i = 0; i < 60; i++) reserve(admission, ask({ promptTokens: 0, statedCap: 100 })).settle(100);
  const error = refusal(() => reserve(admission, ask({ promptTokens: 3_000, statedCap: 0 })));
  t.match(
    error,
    { code: 'rpm_limit_exceeded', retryAfterMs: 30_000 },
    'Retry-After is the longer of the two refill times',
  );
  t.end();
});

t.test('the wait for a concurrency slot follows the mean request duration', (t) => {
  const { admission, pass } = gate({ concurrency: 1 });
  for (let i = 0; i < 3; i++) {
    const one = reserve(admission, ask());
    pass(20_000);
    one.settle(1);
  }
  reserve(admission, ask());
  t.equal(refusal(() => reserve(admission, ask())).retryAfterMs, 10_000);
  t.end();
});

t.test('the mean request duration is a running mean of completed requests', (t) => {
  const after = (...took: number[]): number | undefined => {
    const { admission, pass } = gate({ concurrency: 1 });
    for (const ms of took) {
      const one = reserve(admission, ask());
      pass(Math.abs(ms));
      if (ms < 0) one.refund();
      else one.settle(1);
    }
    reserve(admission, ask());
    return refusal(() => reserve(admission, ask())).retryAfterMs;
  };
  t.equal(after(20_000, 4_000), 9_000);
  t.equal(after(4_000, 20_000), 3_000);
  t.equal(after(20_000, -900_000), 10_000, 'a refunded request does not change the mean');
  t.equal(after(7_200_000), 1_800_000, 'a duration counts as one hour at most');
  t.equal(after(1_000), 1_000, 'the wait is at least one second');
  t.equal(after(), 1_000);
  t.end();
});

t.test('`n` above the number of concurrency slots is refused, and `n` equal to it is admitted', (t) => {
  const { admission } = gate({ concurrency: 2 });
  t.match(
    refusal(() => reserve(admission, ask({ n: 3 }))),
    {
      code: 'concurrency_limit_exceeded',
      retryAfterMs: 60_000,
      message: /3 choices, which run concurrently; the concurrency limit of the organization is 2/,
    },
  );
  reserve(admission, ask({ n: 2 })).refund();
  t.equal(admission.unfinished(), 0);
  t.end();
});

t.test('Retry-After does not include what the refused request itself took and returned', (t) => {
  const { admission } = gate({ rpm: 2, tpm: 1_000, concurrency: null });
  reserve(admission, ask({ promptTokens: 100, statedCap: 400 }));
  const refused = refusal(() => reserve(admission, ask({ promptTokens: 100, statedCap: 700 })));
  t.match(
    refused,
    { code: 'tpm_limit_exceeded', retryAfterMs: 18_000 },
    'Retry-After covers the 300 missing tokens, not a second request',
  );
  t.equal(
    refusal(() => reserve(admission, ask({ promptTokens: 100, statedCap: 401 }))).retryAfterMs,
    60,
    'Retry-After covers the one missing token',
  );
  reserve(admission, ask({ promptTokens: 100, statedCap: 400 }));
  t.end();
});

t.test('Retry-After is at least one millisecond', (t) => {
  const { admission } = gate({ tpm: 1_000_000, rpm: null, concurrency: null });
  reserve(admission, ask({ promptTokens: 600_000, statedCap: 400_000 }));
  t.equal(refusal(() => reserve(admission, ask({ promptTokens: 1, statedCap: 0 }))).retryAfterMs, 1);
  t.end();
});

t.test('the reservations of a terminated thread are returned', (t) => {
  const buffer = new SharedArrayBuffer(COUNTER_BYTES);
  const ledger = ledgerOf(new SharedArrayBuffer(ledgerBytes(1)), 1);
  const { limits } = configWith({ limits: { concurrency: 3 } });
  const [ended, other] = [new LocalAdmission(limits, { buffer, ledger }), new LocalAdmission(limits, { buffer })];
  reserve(ended, ask({ n: 2 }));
  reserve(other, ask());
  other.leaveAll(ledger);
  t.equal(other.unfinished(), 1);
  t.equal(other.health(), null);
  t.end();
});

t.test('record 0 counts reads and connections like any other', (t) => {
  const of = (): LocalAdmission =>
    new LocalAdmission(configWith({ limits: { read_rpm: 5 } }).limits, {
      buffer: new SharedArrayBuffer(tableBytes(1)),
    });
  of().read(ORG);
  of().connect('org_a', 1)();
  t.equal(refusal(() => reserve(of(), ask({ n: 1_000 }))).retryAfterMs, 60_000);
  t.end();
});

t.test('unlimited reads and refused reads do not count as unfinished', (t) => {
  const { admission: open } = gate({ read_rpm: null });
  for (let i = 0; i < 2_000; i++) open.read(ORG);
  const { admission, pass } = gate({ read_rpm: 1 });
  admission.read(ORG);
  for (let i = 0; i < 5; i++) t.equal(refusal(() => admission.read(ORG)).retryAfterMs, 60_000);
  pass(60_000);
  admission.read(ORG);
  t.equal(admission.unfinished(), 0);
  t.end();
});

t.test('a monthly token cap refuses requests once it is used up', async (t) => {
  let wall = Date.parse('2026-11-30T23:59:00Z');
  const stored: string[] = [];
  const admission = new LocalAdmission(configWith({}).limits, {
    wall: () => wall,
    now: () => 1n,
    storedMonth: async (id, month) => {
      stored.push(`${id} ${month}`);
      return month === '2026-11' ? 900 : 0;
    },
  });
  const capped = identity({ monthlyTokenCap: 1_000 });
  (await admission.reserve(ask({ identity: capped }))).refund();
  const running = reserve(admission, ask({ identity: capped }));
  reserve(admission, ask({ identity: capped })).settle(150);
  const error = refusal(() => reserve(admission, ask({ identity: capped })));
  t.match(error, { status: 429, code: 'insufficient_quota', shouldRetry: false, message: /1000 tokens for 2026-11/ });
  t.ok(Object.fromEntries(error.headers?.('chat') ?? [])['x-ratelimit-limit-requests']);
  reserve(admission, ask({ identity: identity({ monthlyTokenCap: 2_000 }) })).refund();
  reserve(admission, ask()).refund();
  wall += 120_000;
  (await admission.reserve(ask({ identity: capped }))).settle(999);
  reserve(admission, ask({ identity: capped })).settle(0);
  running.settle(1);
  t.equal(
    refusal(() => reserve(admission, ask({ identity: capped }))).code,
    'insufficient_quota',
    'the cap was used up in December',
  );
  const uncapped = reserve(admission, ask({ identity: identity() }));
  uncapped.settle(5_000);
  t.equal(
    refusal(() => reserve(admission, ask({ identity: identity({ monthlyTokenCap: 5_000 }) }))).code,
    'insufficient_quota',
    'tokens used while there was no cap count once a cap is set again',
  );
  t.same(stored, ['org_a 2026-11', 'org_a 2026-12'], 'stored totals are read once per month');
});

/** Creates a table, and a store whose lookups the test resolves by hand. */
function months(): {
  table: RecordTable;
  looked: () => number;
  stored: StoredMonth;
  answer(tokens: number | Error): Promise<void>;
} {
  const asked: { resolve(tokens: number): void; reject(error: Error): void }[] = [];
  let looked = 0;
  return {
    table: new RecordTable(new SharedArrayBuffer(tableBytes(64)), {
      now: () => 1n,
      month: () => monthNumber(NOVEMBER),
    }),
    looked: () => looked,
    stored: () =>
      new Promise((resolve, reject) => {
        looked++;
        asked.push({ resolve, reject });
      }),
    answer: async (tokens) => {
      const one = asked.shift()!;
      if (typeof tokens === 'number') one.resolve(tokens);
      else one.reject(tokens);
      await new Promise(setImmediate);
    },
  };
}
const NOVEMBER = Date.parse('2026-11-30T23:59:00Z');

t.test(
  "all threads share one lookup of the month's total, and requests that finish meanwhile are counted",
  async (t) => {
    const { table, looked, stored, answer } = months();
    let wall = NOVEMBER;
    const [one, other] = [new MonthUse(table, stored, () => wall), new MonthUse(table, stored, () => wall)] as const;
    const waiting = [one.used('org_a'), one.used('org_a'), other.used('org_a')];
    for (const each of waiting) t.ok(each instanceof Promise);
    t.equal(looked(), 1);
    other.add('org_a', 30);
    one.add('org_a', 7, false);
    await answer(900);
    await Promise.all(waiting);
    t.same([one.used('org_a'), other.used('org_a')], [937, 937]);
    t.equal(table.unfinished(), 0);

    wall += 120_000;
    other.add('org_a', 5); // counted in the thread that started the lookup, and only for the new month
    t.equal(looked(), 2);
    const begun = one.used('org_a');
    await answer(new Error('no answer'));
    await begun;
    const again = t.rejects(one.used('org_a') as Promise<void>, /no answer/);
    t.equal(looked(), 3, 'a failed lookup is retried');
    await answer(new Error('no answer'));
    await again;
    const last = other.used('org_a');
    one.add('org_a', 2);
    await answer(45);
    await last;
    t.equal(one.used('org_a'), 47, 'the stored total includes requests that ended before the lookup');
    t.equal(looked(), 4);
    t.equal(table.unfinished(), 0);
  },
);

t.test('an unfinished lookup in one thread does not delay others, and its late result changes nothing', async (t) => {
  const { table, looked, stored, answer } = months();
  const one = new MonthUse(table, stored, () => NOVEMBER);
  const other = new MonthUse(table, stored, () => NOVEMBER, 20);
  void one.used('org_a');
  const waiting = other.used('org_a');
  while (looked() < 2) await new Promise(setImmediate);
  one.add('org_a', 1);
  await answer(100); // the result of the first thread's lookup, which arrives too late
  await answer(100);
  await waiting;
  t.equal(other.used('org_a'), 101);
  t.equal(table.unfinished(), 0);
});

t.test('reads are limited per key, and connections per organization', (t) => {
  const { admission, pass } = gate({ read_rpm: 2 });
  admission.read(ORG);
  admission.read(ORG);
  t.match(
    refusal(() => admission.read(ORG)),
    { code: 'rpm_limit_exceeded', retryAfterMs: 30_000 },
  );
  admission.read(identity({ keyId: 'key_b' }));
  pass(30_001);
  admission.read(ORG);
  t.equal(values(admission)['x-ratelimit-remaining-requests'], '9999');
  const leave = admission.connect('org_a', 2);
  admission.connect('org_a', 2);
  t.equal(refusal(() => admission.connect('org_a', 2)).code, 'concurrency_limit_exceeded');
  leave();
  leave();
  admission.connect('org_a', 2);
  t.equal(
    refusal(() => admission.connect('org_a', 2)).code,
    'concurrency_limit_exceeded',
    'a disconnect frees one slot',
  );
  t.equal(admission.unfinished(), 2);
  t.end();
});

t.test('duration() formats milliseconds for the rate limit headers', (t) => {
  t.same([0, 12, 999.2, 6000, 59_001, 60_000, 90_500].map(duration), [
    '0ms',
    '12ms',
    '1s',
    '6s',
    '1m0s',
    '1m0s',
    '1m31s',
  ]);
  t.end();
});
