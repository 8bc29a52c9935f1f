// npm run simulate -- [--steps N] [--seed N] [--half engine|service]: the real parts under a simulated clock and faults of one
// seed, all that must be true of them checked after every step. Two halves, each of so many steps: the engine over a simulated
// model, and the service (limits, stored responses, background runs, usage) on a simulated disk. What fails is made smaller
// and printed with what reproduces it (--half, --part, --only). See docs/internals/simulation.md.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { ensurePackages, root, run, SetupError, sh } from './setup.mjs';

const options = process.argv.slice(2);
const at = options.indexOf('--half');
const [, half = 'both'] = at < 0 ? [] : options.splice(at, 2);

await run(async () => {
  if (!['both', 'engine', 'service'].includes(half)) throw new SetupError('--half is engine or service.');
  ensurePackages();
  if (half !== 'service')
    await sh(process.execPath, [join(root, 'scripts', 'cmake-js.mjs'), 'simulate_engine'], 'building the simulation');
  if (half !== 'engine')
    await sh(
      process.execPath,
      [join(root, 'scripts', 'build.mjs'), 'ts', 'tests'],
      'building the simulation of the service',
    );
  const { status } =
    half === 'service'
      ? { status: 0 }
      : spawnSync(join(root, 'build', 'native', 'simulate_engine'), options, { stdio: 'inherit' });
  process.exitCode = status ?? 1;
  if (status !== 0 || half === 'engine') return;
  process.exitCode =
    spawnSync(process.execPath, [join(root, 'build', 'test', 'simulation', 'service', 'main.js'), ...options], {
      stdio: 'inherit',
    }).status ?? 1;
});
