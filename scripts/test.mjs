// npm test [-- tap arguments]: installs and builds what is missing, checks all types, runs the tests.
// npm run test:slow does the same for the tests that take long and rarely fail (*.slow.ts).
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildNative, buildTypeScript, buildWeb, ensurePackages, ensureTools, root, run } from './setup.mjs';

const isSlow = process.argv.includes('--slow');

await run(
  async () => {
    ensureTools();
    ensurePackages();
    await buildTypeScript({ tests: true }); // first, because it reports type errors within seconds
    await buildWeb({ check: true });
    await buildNative({ tests: true, slow: isSlow });
    const tap = join(root, 'node_modules', 'tap', 'dist', 'esm', 'run.mjs');
    // Temporary files from all tests (data directories, models, browser profiles) are removed after the run, even if a
    // test crashed.
    const temporary = mkdtempSync(join(tmpdir(), 'monolith-tests-'));
    try {
      const { status } = spawnSync(process.execPath, [tap, 'run', ...tapArguments()], {
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

/** The arguments for tap. `--slow` stands for the slow tests, one at a time. */
function tapArguments() {
  const words = process.argv.slice(2);
  if (!isSlow) return words;
  const slow = readdirSync(join(root, 'build', 'test'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.slow.js'))
    .map((file) => join('build', 'test', file));
  return [...words.filter((word) => word !== '--slow'), '--jobs=1', '--timeout=3600', ...slow.sort()];
}
