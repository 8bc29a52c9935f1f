// npm run bench -- <bench> [options]: builds everything, then runs bench/main.ts.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildNative, buildTypeScript, ensurePackages, root, run } from './setup.mjs';

await run(
  async () => {
    ensurePackages();
    // The GPU benchmark builds its own executable and needs no addon.
    if (process.argv[2] !== 'gpu')
      await buildNative({ bench: ['grammar', 'upstream'].includes(process.argv[2]) ? process.argv[2] : null });
    await buildTypeScript({ tests: true });
    const main = join(root, 'build', 'bench', 'main.js');
    process.argv = [process.execPath, main, ...process.argv.slice(2)];
    await import(pathToFileURL(main).href);
  },
  { passesHelp: true },
);
