// What every SealerState promises, whatever it is kept in.
import t, { type Test } from 'tap';
import type { SealerState } from '../../src/accounts/sealing/sealer-state.js';

const DAY_MS = 24 * 3_600_000;

/** `open`: how to open one more on the same state, new and empty, by this clock. */
export function sealerStateTests(open: (t: Test) => Promise<(now: () => number) => SealerState>): void {
  t.test('SealerState: one key for all who ask, and as long as it counts', async (t) => {
    const again = await open(t);
    let now = Date.parse('2026-01-01T00:00:00Z');
    const clock = (): number => now;
    t.equal(await again(clock).madeKey(true), null, 'where there are others it is not made');
    const keys = await Promise.all([1, 2, 3].map(() => again(clock).madeKey(false)));
    t.equal(keys[0]?.length, 32);
    t.same(keys, [keys[0], keys[0], keys[0]]);
    t.same(await again(clock).madeKey(true), keys[0], 'one that was made goes on');
    now += 30 * DAY_MS;
    t.same(await again(clock).madeKey(true), keys[0]);
    now += DAY_MS - 1;
    t.same(await again(clock).madeKey(true), keys[0]);
    now += 1;
    t.equal(await again(clock).madeKey(true), null, 'for 31 days, to the millisecond');
    t.same(await again(clock).madeKey(false), keys[0], 'and counts again when there are no others');
  });

  t.test('SealerState: names that were ever served', async (t) => {
    const again = await open(t);
    t.same(await again(Date.now).knownModels(['a', 'b']), ['a', 'b']);
    t.same(await again(Date.now).knownModels(['b', 'c']), ['b', 'c', 'a']);
    t.same([...(await again(Date.now).knownModels(['a']))].sort(), ['a', 'b', 'c']);
  });
}
