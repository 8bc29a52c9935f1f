// Runs the engine simulation (docs/internals/simulation.md) for half a million steps with a fixed seed, and as many
// with a random seed. Part of npm run test:slow.
import { spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';

t.setTimeout(3_600_000);

t.test('every engine invariant holds over a long run', (t) => {
  for (const seed of ['1', String(randomInt(2 ** 40))]) {
    const { status, stdout, stderr } = spawnSync(
      join(packageRoot, 'build', 'native', 'simulate_engine'),
      ['--steps', '500000', '--seed', seed],
      { encoding: 'utf8' },
    );
    t.equal(status, 0, `seed ${seed}: ${stdout}${stderr}`);
  }
  t.end();
});
