// npm run kills -- [--rounds N] [--seed N] [--first N] [--ready-ms N]: a real server under load, killed with kill -9 at random
// moments, started again and checked: see docs/simulation.md. Some seconds a round.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildNative, buildTypeScript, ensurePackages, root, run } from './setup.mjs';

await run(async () => {
  ensurePackages();
  await buildNative();
  await buildTypeScript({ tests: true });
  const main = join(root, 'build', 'test', 'kills', 'all-kills.js');
  process.argv = [process.execPath, main, ...process.argv.slice(2)];
  await import(pathToFileURL(main).href);
});
