// npm test [-- tap arguments]: sets up and builds what is missing, checks all types, runs all tests.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { buildNative, buildTypeScript, buildWeb, ensurePackages, root, run } from './setup.mjs';

await run(async () => {
  ensurePackages();
  await buildTypeScript({ tests: true });   // first: a type error shows within seconds
  await buildWeb({ check: true });
  await buildNative({ tests: true });
  const tap = join(root, 'node_modules', 'tap', 'dist', 'esm', 'run.mjs');
  const { status } = spawnSync(process.execPath, [tap, 'run', ...process.argv.slice(2)], { cwd: root, stdio: 'inherit' });
  process.exitCode = status ?? 1;
});
