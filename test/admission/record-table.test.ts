// Tests the shared record table at a small size: lookup, probing, and replacement in a full table.
import t from 'tap';
import { recordKey } from '../../src/admission/record-key.js';
import { FULL, OVER, RecordTable, tableBytes } from '../../src/admission/record-table.js';
import { clockStart } from '../support/admission.js';

function table(records: number): {
  table: RecordTable;
  other: RecordTable;
  pass(ns: bigint): void;
  turn(month: number): void;
} {
  let now = clockStart(1_000n);
  let month = 202611;
  const buffer = new SharedArrayBuffer(tableBytes(records));
  const options = { now: () => now, month: () => month };
  return {
    table: new RecordTable(buffer, options),
    other: new RecordTable(buffer, options),
    pass: (ns) => {
      now += ns;
    },
    turn: (to) => {
      month = to;
    },
  };
}

const key = (id: number): Int32Array => recordKey('organization', `org_${id}`, 'm');

t.test('hashes depend on every part of a key', (t) => {
  const keys = [
    ['organization', 'a', 'bc'],
    ['organization', 'ab', 'c'],
    ['key', 'a', 'bc'],
    ['organization', 'a', 'bd'],
    ['organization', 'a', ''],
  ] as const;
  const seen = new Set(keys.map(([kind, id, model]) => recordKey(kind, id, model).join()));
  for (let i = 0; i < 50_000; i++) seen.add(key(i).join());
  t.equal(seen.size, keys.length + 50_000);
  const homes = new Set(Array.from({ length: 10_000 }, (_, i) => (key(i)[0]! >>> 0) % 131_072));
  t.ok(homes.size > 9_400, `10,000 keys are spread over ${homes.size} slots`); // 9,629 expected
  t.end();
});

t.test("a key's hash is the same in every process and version, so that all of them count in the same record", (t) => {
  t.same([...recordKey('organization', 'org_a', 'hal-1.0')], [1_754_203_989, 118_156_729, -901_529_593, 2_132_321_453]);
  t.same([...recordKey('month', 'org_ü\ud83e\udded')], [-734_596_420, 542_564_903, 248_884_448, -1_220_620_177]);
  t.same([...recordKey('key', '')], [-533_753_836, -118_959_289, -1_617_421_380, 1_884_450_655]);
  t.end();
});

t.test('all threads find the same record for a key', (t) => {
  const { table: one, other } = table(64);
  t.equal(one.find(key(1)), FULL);
  const records = Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? one : other).enter(key(i), 1, null));
  t.equal(new Set(records).size, 40);
  for (const [i, record] of records.entries()) t.equal(other.find(key(i)), record);
  t.equal(one.enter(key(3), 2, 2), OVER);
  t.equal(one.count(records[3]!), 1);
  for (const record of records) one.leave(record, 1);
  t.equal(other.unfinished(), 0);
  t.end();
});

t.test("a terminated thread's entries are removed from every record exactly once", (t) => {
  const buffer = new SharedArrayBuffer(tableBytes(4));
  const ledger = new Int32Array(new SharedArrayBuffer(4 * Int32Array.BYTES_PER_ELEMENT));
  const options = { now: () => clockStart(1_000n), month: () => 202611 };
  const ended = new RecordTable(buffer, { ...options, ledger });
  const other = new RecordTable(buffer, options);
  const records = [1, 2, 3, 4].map((id) => ended.enter(key(id), id, null));
  t.same([...records].sort(), [0, 1, 2, 3], 'the records include the first and the last one in the table');
  ended.leave(records[3]!, 1);
  other.enter(key(2), 5, null);
  for (let times = 0; times < 2; times++) {
    other.leaveAll(ledger);
    t.same(
      records.map((record) => other.count(record)),
      [0, 5, 0, 0],
      'entries of other threads stay',
    );
  }
  t.same([...ledger], [0, 0, 0, 0]);
  t.equal(other.enter(key(2), 1, 5), OVER);
  t.equal(other.enter(key(1), 5, 5), records[0], 'the concurrency slots are free again');
  t.end();
});

t.test('a key is stored within 32 slots of its home slot, even if the rest of the table is empty', (t) => {
  const { table: one, other } = table(128);
  const last = (id: number): boolean => (key(id)[0]! >>> 0) % 128 === 126;
  const crowd: number[] = [];
  for (let id = 0; crowd.length < 33; id++) if (last(id)) crowd.push(id);
  const records = crowd.slice(0, 32).map((id) => one.enter(key(id), 1, null));
  t.same(
    records,
    Array.from({ length: 32 }, (_, at) => (126 + at) % 128),
    'keys are in consecutive slots, wrapping around at the end',
  );
  for (const [at, id] of crowd.slice(0, 32).entries()) t.equal(other.find(key(id)), records[at]);
  t.equal(other.enter(key(crowd[32]!), 1, null), FULL, 'a 33rd key finds no slot');
  t.equal(other.find(key(crowd[32]!)), FULL);
  other.leave(records[31]!, 1);
  t.equal(
    other.enter(key(crowd[32]!), 1, null),
    records[31],
    'the key replaces the last record once that one holds no information',
  );
  t.equal(one.find(key(crowd[32]!)), records[31]);
  t.end();
});

t.test('a record that is reused for another key is empty at first', (t) => {
  const { table: one, pass, turn } = table(1);
  one.enter(key(1), 1, null);
  for (const word of ['rpm', 'tpm', 'tokens'] as const) one.store(0, word, clockStart(1_000n) + 5n);
  one.took(0, 500);
  one.turnMonth(0, 0, 202611);
  one.leave(0, 1);
  turn(202612);
  pass(5n);
  t.equal(one.enter(key(2), 2, null), 0, 'a bucket that is full at exactly this time counts as full');
  t.same(
    ['rpm', 'tpm', 'tokens'].map((word) => one.load(0, word as 'rpm')),
    [0n, 0n, 0n],
  );
  t.same([one.count(0), one.meanMs(0), one.month(0)], [2, 0, 0]);
  one.leave(0, 2);
  for (const word of ['rpm', 'tpm'] as const) {
    one.store(0, word, clockStart(1_000n) + 6n);
    t.equal(one.enter(key(3), 1, null), FULL, `its ${word} bucket is not full`);
    one.store(0, word, 0n);
  }
  t.equal(one.enter(key(3), 1, null), 0);
  t.end();
});

t.test('the request duration is a running mean in whole milliseconds, each capped at one hour', (t) => {
  const { table: one } = table(1);
  one.enter(key(1), 1, null);
  const took = (ms: number): number => {
    one.took(0, ms);
    return one.meanMs(0);
  };
  t.same([0.2, 801, 800.6, 0].map(took), [1, 101, 189, 166]);
  const { table: other } = table(1);
  other.enter(key(1), 1, null);
  other.took(0, 7_200_000);
  t.equal(other.meanMs(0), 3_600_000);
  t.end();
});

t.test('lists records whose buckets are not full, with their key and the missing amount', (t) => {
  const { table: one } = table(8);
  const now = clockStart(1_000n);
  const told = (): [string, bigint, bigint][] => {
    const all: [string, bigint, bigint][] = [];
    one.forEachAhead(now, (its, rpm, tpm) => all.push([its.join(), rpm, tpm]));
    return all.sort(([a], [b]) => (a < b ? -1 : 1));
  };
  const records = [1, 2, 3, 4].map((id) => one.enter(key(id), 1, null));
  t.same(told(), []);
  one.store(records[0]!, 'rpm', now + 7n);
  one.store(records[1]!, 'tpm', now + 1n);
  one.store(records[2]!, 'rpm', now);
  one.store(records[2]!, 'tpm', now - 1n);
  one.store(records[3]!, 'rpm', now + 2n);
  one.store(records[3]!, 'tpm', now + 3n);
  const expected: [string, bigint, bigint][] = [
    [key(1).join(), 7n, 0n],
    [key(2).join(), 0n, 1n],
    [key(4).join(), 2n, 3n],
  ];
  t.same(
    told(),
    expected.sort(([a], [b]) => (a < b ? -1 : 1)),
  );
  t.end();
});

t.test('a limit applies to all threads together: the last slot is granted and one more is refused', (t) => {
  const { table: one } = table(1);
  t.equal(one.enter(key(1), 2, 3), 0);
  t.equal(one.enter(key(1), 2, 3), OVER);
  t.equal(one.count(0), 2);
  t.equal(one.enter(key(1), 1, 3), 0);
  t.equal(one.enter(key(1), 1, 3), OVER);
  one.leave(0, 3);
  t.equal(one.count(0), 0);
  t.end();
});

t.test('a table full of used records has no free slot, and a record without information is replaced', (t) => {
  const { table: one, other, pass, turn } = table(4);
  const records = [0, 1, 2, 3].map((i) => one.enter(key(i), 1, null));
  t.equal(other.enter(key(9), 1, null), FULL, 'every record is in use');
  one.leave(records[0]!, 1);
  one.store(records[0]!, 'rpm', clockStart(1_000n) + 1_000n);
  t.equal(other.enter(key(9), 1, null), FULL, 'a record whose bucket is not full is kept');
  pass(5_000n);
  const nine = other.enter(key(9), 1, null);
  t.equal(nine, records[0], 'a record whose bucket is full again is replaced');
  t.equal(one.find(key(0)), FULL, 'the replaced key is no longer found');
  t.equal(one.load(nine, 'rpm'), 0n);
  one.leave(records[1]!, 1);
  t.ok(one.turnMonth(records[1]!, 0, 202611));
  t.equal(other.enter(key(8), 1, null), FULL, 'a record of the current month is kept');
  turn(202612);
  t.equal(other.enter(key(8), 1, null), records[1]);
  t.end();
});

t.test('a thread that died during a replacement delays others for at most one second', (t) => {
  const buffer = new SharedArrayBuffer(tableBytes(1));
  let now = clockStart(10n);
  const one = new RecordTable(buffer, { now: () => now, month: () => 0 });
  one.leave(one.enter(key(1), 1, null), 1);
  one.turnMonth(0, 0, 1);
  new BigInt64Array(buffer, 0, 1)[0] = now + 1_000_000_000n;
  t.equal(one.enter(key(2), 1, null), FULL);
  now += 1_000_000_001n;
  t.equal(one.enter(key(2), 1, null), 0);
  t.end();
});
