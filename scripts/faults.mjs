// npm run faults: the store of responses under a fault of every kind at every write and sync of its file. Some minutes.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildTypeScript, ensurePackages, root, run, sh } from './setup.mjs';

await run(async () => {
  ensurePackages();
  await sh(process.execPath, [join(root, 'scripts', 'cmake-js.mjs'), 'storage_faults'], 'building what fails');
  await buildTypeScript({ tests: true });
  await import(pathToFileURL(join(root, 'build', 'test', 'storage', 'all-faults.js')).href);
});
