// Tests the clock guard on LMDB, and the expiry of stored responses, which the guard can suspend.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ERASURE_HOLD_BYTES, ErasureHold } from '../../src/shared/erasure-hold.js';
import { ClockGuard } from '../../src/storage/clock-guard.js';
import { LmdbClockRecords } from '../../src/storage/lmdb/clock-record.js';
import { openResponseStore } from '../../src/storage/lmdb/responses/open-response-store.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import type { OpenedStore } from '../../src/storage/store.js';
import { clockGuardTests } from './clock-guard.js';
import { record } from './records.js';

async function opened(t: Test): Promise<OpenedStore> {
  const path = mkdtempSync(join(tmpdir(), 'monolith-clock-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  return store;
}

clockGuardTests(async (t, clock) => new LmdbClockRecords(await opened(t), () => clock.wall));

t.test('stored responses survive a clock that is a month ahead, and still expire on time', async (t) => {
  const store = await opened(t);
  const one = record();
  let wall = one.createdAt * 1_000;
  const records = new LmdbClockRecords(store, () => wall);
  const hold = new ErasureHold(new SharedArrayBuffer(ERASURE_HOLD_BYTES));
  const guard = await ClockGuard.open(records, {
    hold,
    onHeld: () => undefined,
    onError: (error) => {
      throw error;
    },
  });
  t.teardown(() => guard.close());
  const responses = openResponseStore(store, { retention_days: 30 }, { now: () => wall / 1_000, gate: guard });
  t.teardown(() => responses.close());
  await responses.save(one);
  wall += 31 * 86_400_000;
  t.equal(await responses.sweep(), 0);
  wall -= 31 * 86_400_000;
  t.match(await responses.get('org_a', one.id), { id: one.id });
  wall += 31 * 86_400_000;
  t.equal(await responses.sweep(), 0);
  await records.write({ wall, heldMs: null });
  await guard.tick();
  await responses.sweep();
  t.same([...store.table('responses').keys()], [], 'the response expires once the time is confirmed');
});
