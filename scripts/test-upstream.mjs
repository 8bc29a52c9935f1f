// npm run test:upstream [-- SUITE...]: runs the official clients' suites with every model served by a second process,
// which the first process uses as an upstream (docs/guides/upstreams.md). TEST_UPSTREAM selects the format used between
// the two processes (default: chat-completions, whose known differences are listed in the test).
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
