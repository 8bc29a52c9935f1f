// Runs native test executables and includes their TAP results.
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';

export const folder = join(packageRoot, 'build', 'native');
const kLimitMs = 1_200_000;

/** Executables that only npm run test:slow builds and runs (cuda.slow.ts). */
export const kSlow = ['tests_cuda', 'tests_engine_cuda'];
/** Executables that take minutes. Each has a separate test file and runs in parallel with the others. */
export const kLong = ['tests_engine', 'tests_model'];

/** Runs an executable with the given arguments as a subtest. */
export function runNative(name: string, args: string[] = [], title = name): void {
  t.setTimeout(kLimitMs);
  t.jobs = 1;
  t.spawn(join(folder, name), args, { cwd: packageRoot, timeout: kLimitMs }, title);
}
