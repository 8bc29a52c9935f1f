// Tests an organization's monthly token usage, step by step: which thread looks up the stored total, which threads
// wait, and what happens if the table is full.
import t from 'tap';
import type { Limited } from '../../src/admission/admission.js';
import { LocalAdmission } from '../../src/admission/local-admission.js';
import { monthName, MonthUse, monthNumber, nextMonth } from '../../src/admission/month-use.js';
import { recordKey } from '../../src/admission/record-key.js';
import { RecordTable, tableBytes } from '../../src/admission/record-table.js';
import { configWith } from '../../src/config/load.js';

const NOVEMBER = Date.parse('2026-11-30T23:59:00Z');
const tableOf = (records: number): RecordTable =>
  new RecordTable(new SharedArrayBuffer(tableBytes(records)), { now: () => 1n, month: () => monthNumber(NOVEMBER) });

/** Lookups of stored totals that the test resolves by hand. */
function asked(): { all: ((tokens: number) => void)[]; stored: () => Promise<number> } {
  const all: ((tokens: number) => void)[] = [];
  return {
    all,
    stored: () =>
      new Promise((resolve) => {
        all.push(resolve);
      }),
  };
}
const turn = async (): Promise<void> => {
  for (let i = 0; i < 5; i++) await new Promise(setImmediate);
};

t.test('months follow UTC', (t) => {
  t.same([NOVEMBER, NOVEMBER + 60_000, NOVEMBER + 32 * 86_400_000].map(monthNumber), [202611, 202612, 202701]);
  t.same([202611, 202612, 202701].map(monthName), ['2026-11', '2026-12', '2027-01']);
  t.same(
    [NOVEMBER, NOVEMBER + 60_000].map((ms) => nextMonth(ms).toISOString()),
    ['2026-12-01T00:00:00.000Z', '2027-01-01T00:00:00.000Z'],
  );
  t.end();
});

t.test(
  'a stalled lookup is taken over by another thread once, and the next thread waits for the new lookup',
  async (t) => {
    const table = tableOf(64);
    const { all, stored } = asked();
    const of = (patienceMs?: number): MonthUse => new MonthUse(table, stored, () => NOVEMBER, patienceMs);
    const first = of().used('org_a');
    t.equal(all.length, 1);
    const second = of(20).used('org_a');
    while (all.length < 2) await turn();
    const third = of();
    const waiting = third.used('org_a');
    await turn();
    t.equal(all.length, 2, 'the thread that took over now has the claim on the lookup');
    third.add('org_a', 5);
    await turn();
    t.equal(all.length, 2, 'tokens used during a lookup start no other lookup');
    all[1]!(70);
    await second;
    await waiting;
    t.equal(third.used('org_a'), 75);
    all[0]!(70);
    await first;
    t.equal(third.used('org_a'), 75, 'the result of a thread that lost its claim is ignored');
    const fourth = of().used('org_b');
    const fifth = of(20).used('org_b');
    while (all.length < 4) await turn();
    const sixth = of(20).used('org_b');
    while (all.length < 5) await turn();
    all[4]!(7);
    await sixth;
    all[3]!(7);
    all[2]!(7);
    await Promise.all([fourth, fifth]);
    t.equal(third.used('org_b'), 7, 'only one of three lookups counts');
    t.equal(table.unfinished(), 0);
  },
);

t.test('a total reported by Redis is stored and starts the month', (t) => {
  const table = tableOf(64);
  const { all, stored } = asked();
  let wall = NOVEMBER;
  const months = new MonthUse(table, stored, () => wall);
  months.saw('org_a', 40.4);
  t.equal(months.used('org_a'), 40);
  months.saw('org_a', 12.6);
  t.equal(months.used('org_a'), 13, 'a lower total replaces a higher one');
  wall += 120_000;
  months.saw('org_a', 3);
  t.equal(months.used('org_a'), 3, 'a total for the next month starts that month');
  t.equal(all.length, 0, 'no stored total is looked up');
  void months.used('org_b');
  months.saw('org_b', 9);
  t.ok(months.used('org_b') instanceof Promise, 'a lookup in progress still belongs to the thread that started it');
  t.equal(all.length, 1);
  t.end();
});

t.test('a full table stores no totals and counts nothing', async (t) => {
  const table = tableOf(1);
  t.equal(table.enter(recordKey('organization', 'org_b', 'm'), 1, null), 0);
  const months = new MonthUse(
    table,
    () => Promise.resolve(5),
    () => NOVEMBER,
  );
  t.equal(months.used('org_a'), null);
  t.doesNotThrow(() => months.add('org_a', 3));
  t.doesNotThrow(() => months.saw('org_a', 3));
  t.equal(table.load(0, 'tokens'), 0n, 'the record of another key is unchanged');
  t.equal(table.unfinished(), 1);
});

t.test('an organization without a cap is counted only if its total has been looked up', async (t) => {
  const table = tableOf(1); // record 0 behaves like any other
  const looked: string[] = [];
  const months = new MonthUse(
    table,
    (id) => {
      looked.push(id);
      return Promise.resolve(100);
    },
    () => NOVEMBER,
  );
  months.add('org_a', 3, false);
  await turn();
  t.same(looked, []);
  t.equal(table.find(recordKey('month', 'org_a')), -1, 'no record is created for the organization');
  months.add('org_a', 3);
  await turn();
  t.equal(months.used('org_a'), 103);
  months.add('org_a', 4, false);
  t.equal(months.used('org_a'), 107);
});

t.test('a capped organization whose month does not fit in the table is refused', async (t) => {
  const admission = new LocalAdmission(configWith({ limits: { read_rpm: 5 } }).limits, {
    buffer: new SharedArrayBuffer(tableBytes(1)),
    wall: () => NOVEMBER,
  });
  const who: Limited = { organizationId: 'org_a', limits: {}, keyId: 'key_a', keyLimits: null, monthlyTokenCap: null };
  const ask = { model: 'm', promptTokens: { tokens: 1, exact: true }, statedCap: 1, modelMaximum: 1, n: 1 };
  const running = await admission.reserve({ ...ask, identity: who });
  const again = await admission.reserve({ ...ask, identity: who });
  t.throws(() => admission.reserve({ ...ask, identity: { ...who, monthlyTokenCap: 1_000 } }), {
    code: 'capacity_exhausted',
    retryAfterMs: 60_000,
  });
  t.throws(() => admission.read(who), { code: 'capacity_exhausted' });
  t.throws(() => admission.connect('org_a', 5), { code: 'capacity_exhausted' });
  t.throws(() => admission.reserve({ ...ask, identity: { ...who, organizationId: 'org_b' } }), {
    code: 'capacity_exhausted',
  });
  running.settle(1);
  again.refund();
  t.equal(admission.unfinished(), 0);
});
