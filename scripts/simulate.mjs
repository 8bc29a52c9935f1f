// npm run simulate -- [--steps N] [--seed N]: the engine over a simulated model and clock, under faults of one seed, all
// that must be true of it checked after every step. What fails is made smaller and printed with what reproduces it
// (--part, --only). See docs/simulation.md.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { ensurePackages, root, run, sh } from './setup.mjs';

await run(async () => {
  ensurePackages();
  await sh(process.execPath, [join(root, 'scripts', 'cmake-js.mjs'), 'simulate_engine'], 'building the simulation');
  const { status } = spawnSync(join(root, 'build', 'native', 'simulate_engine'), process.argv.slice(2), { stdio: 'inherit' });
  process.exitCode = status ?? 1;
});
