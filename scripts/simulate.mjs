// npm run simulate -- [--steps N] [--seed N] [--half engine|service]: runs the real components under a simulated clock
// and seeded faults, and checks all invariants after every step. Two halves with N steps each: the engine with a
// simulated model, and the service (limits, stored responses, background responses, usage) with a simulated disk. A
// failing run is reduced and printed with the options that reproduce it (--half, --part, --only). See
// docs/internals/simulation.md.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { ensurePackages, root, run, SetupError, sh } from './setup.mjs';

const options = process.argv.slice(2);
const at = options.indexOf('--half');
const [, half = 'both'] = at < 0 ? [] : options.splice(at, 2);

await run(async () => {
  if (!['both', 'engine', 'service'].includes(half)) throw new SetupError('--half must be engine or service.');
  ensurePackages();
  if (half !== 'service')
    await sh(
      process.execPath,
      [join(root, 'scripts', 'cmake-js.mjs'), 'simulate_engine'],
      'building the engine simulation',
    );
  if (half !== 'engine')
    await sh(process.execPath, [join(root, 'scripts', 'build.mjs'), 'ts', 'tests'], 'building the service simulation');
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
