// Runs the tests of the CUDA backend in the emulator. The tests of CUDA graphs are run by native.test.ts. Part of npm
// run test:slow.
import { kSlow, runNative } from './executables.js';

for (const name of kSlow) runNative(name);
