// Runs the engine tests with clocks that start at zero, just before a 32-bit millisecond overflow, and near the maximum.
// Part of npm run test:slow.
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';

t.setTimeout(3_600_000);
t.jobs = 1;

for (const clock of ['0', '4294966', 'max']) {
  t.spawn(
    join(packageRoot, 'build', 'native', 'tests_engine'),
    [`--clock=${clock}`, 'native/engine/engine_'],
    { cwd: packageRoot, timeout: 1_200_000 },
    `tests_engine with the clock starting at ${clock}`,
  );
}
