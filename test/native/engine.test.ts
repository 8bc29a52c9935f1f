// Runs the engine's native tests. Tests that depend on time are run a second time with a clock that starts near its
// maximum. clocks.slow.ts runs all engine tests with several clocks.
import { runNative } from './executables.js';

runNative('tests_engine');
for (const file of ['engine_fairness_test', 'engine_overlap_test', 'schedule/scheduler_test'])
  runNative(
    'tests_engine',
    ['--clock=max', `native/engine/${file}`],
    `${file} with the clock starting near its maximum`,
  );
