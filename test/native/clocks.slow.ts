// Runs the engine tests with clocks that start at zero, just before an overflow of 32-bit milliseconds, and near the
// maximum. Part of npm run test:slow.
import { runNative } from './executables.js';

for (const clock of ['0', '4294966', 'max'])
  runNative(
    'tests_engine',
    [`--clock=${clock}`, 'native/engine/engine_'],
    `tests_engine with the clock starting at ${clock}`,
  );
