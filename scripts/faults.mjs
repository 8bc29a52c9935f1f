// npm run faults [-- --kinds KIND,... --from N --to N --jobs N --seeds N]: tests the response store with every kind of
// fault, at every write and every sync of its file. Takes about 15 minutes.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { buildTypeScript, ensurePackages, root, run, sh } from './setup.mjs';

await run(async () => {
  ensurePackages();
  await sh(process.execPath, [join(root, 'scripts', 'cmake-js.mjs'), 'storage_faults'], 'building the fault library');
  await buildTypeScript({ tests: true });
  const main = join(root, 'build', 'test', 'storage', 'all-faults.js');
  process.argv = [process.execPath, main, ...process.argv.slice(2)];
  await import(pathToFileURL(main).href);
});
