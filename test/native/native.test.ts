// Runs every native test executable built by scripts/build.mjs and includes its TAP results.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';

t.setTimeout(1_200_000);
t.jobs = 1;

const built = spawnSync(process.execPath, [join(packageRoot, 'scripts', 'build.mjs'), 'native', 'tests'], {
  encoding: 'utf8',
});
if (built.status !== 0) t.comment(built.stderr);
t.equal(built.status, 0, 'the native tests build');

const folder = join(packageRoot, 'build', 'native');
const executables = readdirSync(folder, { withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.startsWith('tests_'))
  .map(({ name }) => name)
  .sort(); // the build directory also contains subdirectories
t.ok(executables.length >= 6, `there is one executable per module: ${executables.join(', ')}`);
for (const name of executables) t.spawn(join(folder, name), [], { cwd: packageRoot, timeout: 1_200_000 }, name);

// The tests that depend on time run again with a clock that starts near its maximum. clocks.slow.ts runs all engine
// tests with several clocks.
for (const file of ['engine_fairness_test', 'engine_overlap_test', 'schedule/scheduler_test']) {
  t.spawn(
    join(folder, 'tests_engine'),
    ['--clock=max', `native/engine/${file}`],
    { cwd: packageRoot, timeout: 1_200_000 },
    `${file} with the clock starting near its maximum`,
  );
}
