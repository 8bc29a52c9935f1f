// Tests the token buckets in isolation, with nanosecond accuracy, and the shared and per-thread memory.
import t from 'tap';
import { COUNTER_BYTES, ledgerBytes, ledgerOf } from '../../src/admission/counter-memory.js';
import { bucketState, Counters } from '../../src/admission/counters.js';
import { recordKey } from '../../src/admission/record-key.js';
import { RecordTable, tableBytes } from '../../src/admission/record-table.js';

const NOW = 5_000_000_000_000n;
const SECOND = 1_000_000_000n;

function bucket(): { counters: Counters; table: RecordTable } {
  const table = new RecordTable(new SharedArrayBuffer(tableBytes(2)), { now: () => NOW, month: () => 0 });
  for (const id of ['a', 'b']) table.enter(recordKey('organization', id, 'm'), 1, null);
  return { counters: new Counters(table), table };
}

t.test('a full bucket holds exactly its limit and not a nanosecond more', (t) => {
  const { counters, table } = bucket();
  t.equal(counters.wait(0, 'rpm', 60, 60, NOW), 0);
  t.equal(counters.take(0, 'rpm', 60, 60, NOW), 0);
  t.equal(table.load(0, 'rpm'), NOW + 60n * SECOND);
  t.equal(counters.take(0, 'rpm', 1, 60, NOW), 1_000);
  t.equal(counters.wait(0, 'rpm', 1, 60, NOW), 1_000);
  t.equal(counters.wait(0, 'rpm', 1, 60, NOW + SECOND), 0);
  t.equal(counters.wait(0, 'rpm', 1, 60, NOW + SECOND - 1n), 1, 'the shortest wait is one millisecond');
  t.equal(counters.take(0, 'rpm', 1, 60, NOW + SECOND - 1n), 1);
  t.equal(table.load(0, 'rpm'), NOW + 60n * SECOND, 'a refused amount takes nothing');
  t.equal(counters.take(0, 'rpm', 1, 60, NOW + SECOND), 0);
  t.equal(table.load(1, 'rpm'), 0n, 'other records are unchanged');
  t.equal(table.load(0, 'tpm'), 0n, 'other buckets are unchanged');
  t.end();
});

t.test('returned amounts fill the bucket up to its limit, and overdrafts go below zero', (t) => {
  const { counters, table } = bucket();
  counters.give(1, 'tpm', 30, 60, NOW);
  t.same(counters.state(1, 'tpm', 60, NOW), { limit: 60, remaining: 60, resetMs: 0 });
  t.equal(table.load(1, 'tpm'), NOW);
  counters.give(1, 'tpm', -90, 60, NOW);
  t.same(counters.state(1, 'tpm', 60, NOW), { limit: 60, remaining: 0, resetMs: 90_000 });
  counters.give(1, 'tpm', 40, 60, NOW);
  t.same(counters.state(1, 'tpm', 60, NOW), { limit: 60, remaining: 10, resetMs: 50_000 });
  t.same(counters.state(1, 'tpm', 60, NOW + 60n * SECOND), { limit: 60, remaining: 60, resetMs: 0 });
  t.same(
    counters.state(-1, 'tpm', 60, NOW),
    { limit: 60, remaining: 60, resetMs: 0 },
    'a missing record is reported as a full bucket',
  );
  counters.give(0, 'tpm', -60, 60, NOW);
  t.same(
    counters.state(0, 'tpm', 60, NOW),
    { limit: 60, remaining: 0, resetMs: 60_000 },
    'record 0 behaves like any other',
  );
  t.end();
});

t.test('remaining amounts are whole units without accumulated rounding errors', (t) => {
  t.same(bucketState(3, 20e9), { limit: 3, remaining: 2, resetMs: 20_000 });
  t.same(bucketState(3, 20e9 + 1), { limit: 3, remaining: 2, resetMs: 20_000.000001 });
  t.same(bucketState(3, 21e9), { limit: 3, remaining: 1, resetMs: 21_000 });
  for (const limit of [7, 9_999, 999_999])
    for (const taken of [1, 2, limit - 1, limit])
      t.equal(bucketState(limit, Math.round((taken / limit) * 60e9)).remaining, limit - taken);
  t.end();
});

t.test('each thread has its own ledger with one word per record', (t) => {
  const all = new SharedArrayBuffer(ledgerBytes(3));
  const { capacity } = new RecordTable(new SharedArrayBuffer(COUNTER_BYTES), { now: () => NOW, month: () => 0 });
  const ledgers = [1, 2, 3].map((index) => ledgerOf(all, index));
  for (const [at, ledger] of ledgers.entries()) {
    t.equal(ledger.length, capacity);
    ledger.fill(at + 1);
  }
  for (const [at, ledger] of ledgers.entries()) t.same([ledger[0], ledger.at(-1)], [at + 1, at + 1]);
  t.equal(all.byteLength, 3 * 4 * capacity);
  t.end();
});
