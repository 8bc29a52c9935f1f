// Tests that every implementation of SealerState must pass.
import t, { type Test } from 'tap';
import type { SealerState } from '../../src/accounts/sealing/sealer-state.js';

const DAY_MS = 24 * 3_600_000;

/**
 * `open` creates a new, empty state and returns a function that opens another SealerState on this state, with the given
 * clock.
 */
export function sealerStateTests(open: (t: Test) => Promise<(now: () => number) => SealerState>): void {
  t.test('SealerState creates one key for all callers and expires it after it is replaced', async (t) => {
    const again = await open(t);
    let now = Date.parse('2026-01-01T00:00:00Z');
    const clock = (): number => now;
    t.equal(await again(clock).madeKey(true), null, 'no key is created if keys are configured');
    t.equal(await again(clock).storedKey(), null);
    t.equal(await again(clock).storedKey(), null, 'a look at the key does not create one');
    const keys = await Promise.all([1, 2, 3].map(() => again(clock).madeKey(false)));
    t.equal(keys[0]?.length, 32);
    t.same(keys, [keys[0], keys[0], keys[0]]);
    t.same(await again(clock).storedKey(), { secret: keys[0], replacedAt: null });
    t.same(await again(clock).madeKey(true), keys[0], 'an existing key remains valid after keys are configured');
    t.same(await again(clock).storedKey(), { secret: keys[0], replacedAt: now });
    now += 30 * DAY_MS;
    t.same(await again(clock).madeKey(true), keys[0]);
    now += DAY_MS - 1;
    t.same(await again(clock).madeKey(true), keys[0]);
    now += 1;
    t.equal(await again(clock).madeKey(true), null, 'the key expires after exactly 31 days');
    t.same(await again(clock).madeKey(false), keys[0], 'the key is valid again when no keys are configured');
  });

  t.test('SealerState remembers the names of all models ever served', async (t) => {
    const again = await open(t);
    t.same(await again(Date.now).knownModels(['a', 'b']), ['a', 'b']);
    t.same(await again(Date.now).knownModels(['b', 'c']), ['b', 'c', 'a']);
    t.same([...(await again(Date.now).knownModels(['a']))].sort(), ['a', 'b', 'c']);
  });
}
