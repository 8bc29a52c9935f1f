// Runs the tests of the CUDA backend in the emulator. native.test.ts runs those of CUDA graphs. Part of npm run
// test:slow.
import { kSlow, runNative } from './executables.js';

for (const name of kSlow) runNative(name);
