// npm run test:upstream [-- SUITE...]: the suites that official clients run in, with every model served by a second process
// that the first one asks (docs/guides/upstreams.md). TEST_UPSTREAM chooses the format it is asked in: chat-completions by default,
// for which the differences are named.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { buildNative, buildTypeScript, ensurePackages, root, run } from './setup.mjs';

await run(async () => {
  ensurePackages();
  await buildNative({});
  await buildTypeScript({ tests: true });
  process.exitCode =
    spawnSync(process.execPath, [join(root, 'build', 'test', 'upstream', 'all-suites.js'), ...process.argv.slice(2)], {
      stdio: 'inherit',
    }).status ?? 1;
});
