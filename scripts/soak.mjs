// npm run soak -- [--minutes N] [--seed N] [--rate N]: exercises every endpoint for a long time and checks the use of
// memory, file descriptors and threads. See docs/internals/simulation.md.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildNative, buildTypeScript, ensurePackages, root, run } from './setup.mjs';

await run(async () => {
  ensurePackages();
  await buildNative();
  await buildTypeScript({ tests: true });
  const main = join(root, 'build', 'test', 'soak', 'all-soak.js');
  process.argv = [process.execPath, main, ...process.argv.slice(2)];
  await import(pathToFileURL(main).href);
});
