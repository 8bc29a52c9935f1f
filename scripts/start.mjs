// npm start: sets up what is missing, then becomes the server, in this process: signals need no forwarding.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildNative, buildTypeScript, buildWeb, ensurePackages, ensureTools, root, run } from './setup.mjs';

await run(
  async () => {
    ensureTools();
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
