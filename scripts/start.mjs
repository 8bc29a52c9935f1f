// npm start: installs and builds what is missing (scripts/tools.mjs), then runs the server in this process, so that
// signals reach it directly.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildNative, buildTypeScript, buildWeb, ensurePackages, ensureTools, root, run } from './setup.mjs';

await run(
  async () => {
    await ensureTools({ installs: true });
    ensurePackages();
    await buildNative();
    await buildTypeScript();
    await buildWeb();
    const main = join(root, 'dist', 'main.js');
    process.argv = [process.execPath, main, 'serve', ...process.argv.slice(2)];
    await import(pathToFileURL(main).href);
  },
  { passesHelp: true },
);
