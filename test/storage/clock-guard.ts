// Clock guard tests that every storage backend that stores the last known time must pass.
import t, { type Test } from 'tap';
import { ERASURE_HOLD_BYTES, ErasureHold } from '../../src/shared/erasure-hold.js';
import { ClockGuard } from '../../src/storage/clock-guard.js';
import type { ClockRecords } from '../../src/storage/clock-guard.js';

const HOUR = 3_600_000,
  DAY = 24 * HOUR;

export interface Turned {
  wall: number;
  elapsed: number;
}

export function clockGuardTests(open: (t: Test, clock: Turned) => Promise<ClockRecords>): void {
  const bench = async (t: Test) => {
    const clock: Turned = { wall: Date.parse('2026-01-01T00:00:00Z'), elapsed: 0 };
    const records = await open(t, clock);
    const hold = new ErasureHold(new SharedArrayBuffer(ERASURE_HOLD_BYTES));
    const told: string[] = [];
    const start = (): Promise<ClockGuard> => {
      clock.elapsed = 0; // The monotonic clock starts at 0, as in a new process.
      return ClockGuard.open(records, {
        hold,
        elapsed: () => clock.elapsed,
        onHeld: (held) => told.push(held === null ? 'allowed' : 'held'),
        onError: (error) => {
          throw error;
        },
      });
    };
    return {
      clock,
      records,
      hold,
      told,
      start,
      run: (ms: number) => {
        clock.wall += ms;
        clock.elapsed += ms;
      },
    };
  };

  t.test(
    'starting more than a day after the last stored time erases nothing, and a corrected clock is trusted immediately',
    async (t) => {
      const { clock, hold, told, start, run } = await bench(t);
      const first = await start();
      t.ok(first.allows(), 'the first start has no stored time to compare with');
      run(3 * DAY);
      t.ok(first.allows(), 'time that passes while the process runs is not a jump');
      await first.close();
      clock.wall += DAY;
      const second = await start();
      t.ok(second.allows(), 'a gap of one day is not a jump');
      await second.close();
      clock.wall += DAY + 1_000;
      const third = await start();
      t.notOk(third.allows());
      t.match(hold.held, { aheadMs: DAY + 1_000, leftMs: 6 * HOUR });
      clock.wall -= DAY;
      t.ok(third.allows());
      t.equal(hold.held, null);
      await third.close();
      t.same(told, ['held', 'allowed']);
    },
  );

  t.test('the hold ends after six hours of run time, counted across restarts', async (t) => {
    const { clock, told, start, run } = await bench(t);
    await (await start()).close();
    clock.wall += 31 * DAY;
    let guard = await start();
    run(4 * HOUR);
    t.notOk(guard.allows());
    await guard.close();
    guard = await start();
    t.notOk(guard.allows());
    run(2 * HOUR - 1);
    t.notOk(guard.allows());
    let heard = 0;
    guard.onAllowed(() => {
      heard++;
    });
    run(1);
    t.ok(guard.allows());
    t.equal(heard, 1, 'onAllowed is called, which starts the sweeps');
    await guard.close();
    t.ok((await start()).allows(), 'the time is trusted from then on');
    t.same(told, ['held', 'held', 'allowed']);
  });

  t.test('a clock jump at run time holds erasures until an operator confirms the time', async (t) => {
    const { clock, records, start, run } = await bench(t);
    const guard = await start();
    run(HOUR);
    await guard.tick();
    t.match(await records.read(), { wall: clock.wall, heldMs: null }, 'the time is stored every hour');
    run(HOUR / 2);
    clock.wall += 2 * DAY;
    t.notOk(guard.allows());
    await guard.tick();
    t.notOk(guard.allows());
    await records.write({ wall: clock.wall, heldMs: null });
    t.notOk(guard.allows(), 'the hold lasts until the next tick');
    await guard.tick();
    t.ok(guard.allows());
    clock.wall -= 10 * DAY;
    t.ok(guard.allows(), 'a clock set back is allowed, because nothing expires earlier');
    clock.wall += 10 * DAY;
    t.notOk(guard.allows(), 'setting the clock forward again is a jump');
    await guard.close();
  });
}
