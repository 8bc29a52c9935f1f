// npm run bench -- <bench> [options]: builds everything, then runs bench/main.ts. With --help, it builds only the
// TypeScript, and only in a new checkout.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildNative, buildTypeScript, ensurePackages, root, run } from './setup.mjs';

await run(
  async () => {
    const main = join(root, 'build', 'bench', 'main.js');
    const words = process.argv.slice(2);
    const isHelp = words.length === 0 || words.includes('--help') || words.includes('-h');
    if (!isHelp || !existsSync(main)) await build(words[0], isHelp);
    process.argv = [process.execPath, main, ...words];
    await import(pathToFileURL(main).href);
  },
  { passesHelp: true },
);

async function build(bench, isHelp) {
  ensurePackages();
  // The GPU benchmark builds its own executable and needs no addon.
  if (!isHelp && bench !== 'gpu') await buildNative({ bench: ['grammar', 'upstream'].includes(bench) ? bench : null });
  await buildTypeScript({ tests: true });
}
