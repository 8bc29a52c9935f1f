// npm test [-- tap arguments]: installs and builds what is missing, runs all type checks, then all tests.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildNative, buildTypeScript, buildWeb, ensurePackages, ensureTools, root, run } from './setup.mjs';

await run(
  async () => {
    ensureTools();
    ensurePackages();
    await buildTypeScript({ tests: true }); // first, because it reports type errors within seconds
    await buildWeb({ check: true });
    await buildNative({ tests: true });
    const tap = join(root, 'node_modules', 'tap', 'dist', 'esm', 'run.mjs');
    // Temporary files from all tests (data directories, models, browser profiles) are removed after the run, even if a
    // test crashed.
    const temporary = mkdtempSync(join(tmpdir(), 'monolith-tests-'));
    try {
      const { status } = spawnSync(process.execPath, [tap, 'run', ...process.argv.slice(2)], {
        cwd: root,
        stdio: 'inherit',
        env: { ...process.env, TMPDIR: temporary },
      });
      process.exitCode = status ?? 1;
    } finally {
      rmSync(temporary, { recursive: true, force: true, maxRetries: 3 });
    }
  },
  { passesHelp: true },
);
