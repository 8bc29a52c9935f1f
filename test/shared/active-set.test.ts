// Tests that ActiveSet holds the objects in use and does not retain removed objects. With a plain Set, the second test
// would find all removed objects in the old generation.
import { spawnSync } from 'node:child_process';
import t from 'tap';
import { ActiveSet } from '../../src/shared/active-set.js';

void t.test('contains the objects added and not yet removed, in any order of removal', async (t) => {
  const set = new ActiveSet<{ name: string }>();
  const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ name })) as [{ name: string }, { name: string }, { name: string }];
  const [first, second] = [set.add(a), set.add(b)];
  set.remove(first);
  const third = set.add(c);
  t.equal(set.size, 2);
  t.same(new Set(set), new Set([b, c]));
  set.remove(second);
  set.remove(third);
  t.equal(set.size, 0);
  t.same([...set], []);
  t.throws(() => set.remove(third), 'an object cannot be removed twice');
});

void t.test('removed objects are not retained until the next full collection', async (t) => {
  const url = new URL('../../src/shared/active-set.js', import.meta.url).href;
  const { stdout, stderr } = spawnSync(
    process.execPath,
    [
      '--expose-gc',
      '--max-semi-space-size=1',
      '--input-type=module',
      '-e',
      `
    import { getHeapSpaceStatistics } from 'node:v8';
    import { ActiveSet } from ${JSON.stringify(url)};
    const old = () => getHeapSpaceStatistics().find(({ space_name }) => space_name === 'old_space').space_used_size;
    const set = new ActiveSet(), under = [];
    const come = (n) => {
      for (let i = 0; i < n; i++) {
        under.push(set.add({ weight: new Array(250).fill(0) }));
        if (under.length > 4) set.remove(under.shift());
      }
    };
    come(1000);
    gc();
    let most = old(), before = most;
    for (let i = 0; i < 100; i++) { come(100); most = Math.max(most, old()); }
    console.log(most - before);
  `,
    ],
    { encoding: 'utf8' },
  );
  const grown = Number(stdout);
  t.ok(
    stdout !== '' && grown < 2_000_000,
    `20 MB were added and removed, and the old generation grew by ${stdout.trim()} bytes ${stderr}`,
  );
});
