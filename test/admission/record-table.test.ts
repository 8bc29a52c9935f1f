// The shared table in small: finding, probing, and what it does when it is full.
import t from 'tap';
import { recordKey } from '../../src/admission/record-key.js';
import { FULL, OVER, RecordTable, tableBytes } from '../../src/admission/record-table.js';
import { clockStart } from '../support/clock-start.js';

function table(records: number): { table: RecordTable; other: RecordTable; pass(ns: bigint): void; turn(month: number): void } {
  let now = clockStart(1_000n);
  let month = 202611;
  const buffer = new SharedArrayBuffer(tableBytes(records));
  const options = { now: () => now, month: () => month };
  return { table: new RecordTable(buffer, options), other: new RecordTable(buffer, options), pass: (ns) => { now += ns; }, turn: (to) => { month = to; } };
}

const key = (id: number): Int32Array => recordKey('organization', `org_${id}`, 'm');

t.test('keys differ by every part', (t) => {
  const keys = [['organization', 'a', 'bc'], ['organization', 'ab', 'c'], ['key', 'a', 'bc'], ['organization', 'a', 'bd'], ['organization', 'a', '']] as const;
  const seen = new Set(keys.map(([kind, id, model]) => recordKey(kind, id, model).join()));
  for (let i = 0; i < 50_000; i++) seen.add(key(i).join());
  t.equal(seen.size, keys.length + 50_000);
  const homes = new Set(Array.from({ length: 10_000 }, (_, i) => (key(i)[0]! >>> 0) % 131_072));
  t.ok(homes.size > 9_400, `spread over ${homes.size} places`);   // 9,629 expected
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
    t.same(records.map((record) => other.count(record)), [0, 5, 0, 0], 'what another thread has entered stays');
  }
  t.same([...ledger], [0, 0, 0, 0]);
  t.equal(other.enter(key(2), 1, 5), OVER);
  t.equal(other.enter(key(1), 5, 5), records[0], 'the places are free again');
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
