// The shared table in small: finding, probing, and what it does when it is full.
import t from 'tap';
import { recordKey } from '../../src/admission/record-key.js';
import { FULL, OVER, RecordTable, tableBytes } from '../../src/admission/record-table.js';
import { clockStart } from '../support/clock-start.js';

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

t.test('keys differ by every part', (t) => {
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
  t.ok(homes.size > 9_400, `spread over ${homes.size} places`); // 9,629 expected
  t.end();
});

t.test('a key is the same in every process and version: they count in one place', (t) => {
  t.same([...recordKey('organization', 'org_a', 'hal-1.0')], [1_754_203_989, 118_156_729, -901_529_593, 2_132_321_453]);
  t.same([...recordKey('month', 'org_ü\ud83e\udded')], [-734_596_420, 542_564_903, 248_884_448, -1_220_620_177]);
  t.same([...recordKey('key', '')], [-533_753_836, -118_959_289, -1_617_421_380, 1_884_450_655]);
  t.end();
});

t.test('each key has one record, whoever looks', (t) => {
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

t.test('what a thread that ended had entered is left, in every record and once', (t) => {
  const buffer = new SharedArrayBuffer(tableBytes(4));
  const ledger = new Int32Array(new SharedArrayBuffer(4 * Int32Array.BYTES_PER_ELEMENT));
  const options = { now: () => clockStart(1_000n), month: () => 202611 };
  const ended = new RecordTable(buffer, { ...options, ledger });
  const other = new RecordTable(buffer, options);
  const records = [1, 2, 3, 4].map((id) => ended.enter(key(id), id, null));
  t.same([...records].sort(), [0, 1, 2, 3], 'the first record and the last among them');
  ended.leave(records[3]!, 1);
  other.enter(key(2), 5, null);
  for (let times = 0; times < 2; times++) {
    other.leaveAll(ledger);
    t.same(
      records.map((record) => other.count(record)),
      [0, 5, 0, 0],
      'what another thread has entered stays',
    );
  }
  t.same([...ledger], [0, 0, 0, 0]);
  t.equal(other.enter(key(2), 1, 5), OVER);
  t.equal(other.enter(key(1), 5, 5), records[0], 'the places are free again');
  t.end();
});

t.test('a key lives in one of 32 places from its own on, wherever the table is empty besides', (t) => {
  const { table: one, other } = table(128);
  const last = (id: number): boolean => (key(id)[0]! >>> 0) % 128 === 126;
  const crowd: number[] = [];
  for (let id = 0; crowd.length < 33; id++) if (last(id)) crowd.push(id);
  const records = crowd.slice(0, 32).map((id) => one.enter(key(id), 1, null));
  t.same(
    records,
    Array.from({ length: 32 }, (_, at) => (126 + at) % 128),
    'one behind the other, round the end',
  );
  for (const [at, id] of crowd.slice(0, 32).entries()) t.equal(other.find(key(id)), records[at]);
  t.equal(other.enter(key(crowd[32]!), 1, null), FULL, 'a 33rd finds no place');
  t.equal(other.find(key(crowd[32]!)), FULL);
  other.leave(records[31]!, 1);
  t.equal(
    other.enter(key(crowd[32]!), 1, null),
    records[31],
    'but takes the last of them when it says nothing any more',
  );
  t.equal(one.find(key(crowd[32]!)), records[31]);
  t.end();
});

t.test('a record that is given to another key begins as a new one', (t) => {
  const { table: one, pass, turn } = table(1);
  one.enter(key(1), 1, null);
  for (const word of ['rpm', 'tpm', 'tokens'] as const) one.store(0, word, clockStart(1_000n) + 5n);
  one.took(0, 500);
  one.turnMonth(0, 0, 202611);
  one.leave(0, 1);
  turn(202612);
  pass(5n);
  t.equal(one.enter(key(2), 2, null), 0, 'full at this very moment is full');
  t.same(
    ['rpm', 'tpm', 'tokens'].map((word) => one.load(0, word as 'rpm')),
    [0n, 0n, 0n],
  );
  t.same([one.count(0), one.meanMs(0), one.month(0)], [2, 0, 0]);
  one.leave(0, 2);
  for (const word of ['rpm', 'tpm'] as const) {
    one.store(0, word, clockStart(1_000n) + 6n);
    t.equal(one.enter(key(3), 1, null), FULL, `its ${word} bucket misses something`);
    one.store(0, word, 0n);
  }
  t.equal(one.enter(key(3), 1, null), 0);
  t.end();
});

t.test('how long requests take: a running mean of whole milliseconds, of one an hour at most', (t) => {
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

t.test('records that miss something are told of, each with its key and what is missing', (t) => {
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

t.test('a limit is of all that are in it: the last place is given, one more is not', (t) => {
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

t.test('full of what is in use: no place; what says nothing any more gives its place up', (t) => {
  const { table: one, other, pass, turn } = table(4);
  const records = [0, 1, 2, 3].map((i) => one.enter(key(i), 1, null));
  t.equal(other.enter(key(9), 1, null), FULL, 'all are pinned');
  one.leave(records[0]!, 1);
  one.store(records[0]!, 'rpm', clockStart(1_000n) + 1_000n);
  t.equal(other.enter(key(9), 1, null), FULL, 'its bucket is not full yet');
  pass(5_000n);
  const nine = other.enter(key(9), 1, null);
  t.equal(nine, records[0], 'now it is');
  t.equal(one.find(key(0)), FULL, 'the one before is forgotten');
  t.equal(one.load(nine, 'rpm'), 0n);
  one.leave(records[1]!, 1);
  t.ok(one.turnMonth(records[1]!, 0, 202611));
  t.equal(other.enter(key(8), 1, null), FULL, 'a month that goes on is kept');
  turn(202612);
  t.equal(other.enter(key(8), 1, null), records[1]);
  t.end();
});

t.test('a thread that died while replacing holds nobody up for longer than a second', (t) => {
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
