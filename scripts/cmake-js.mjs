// Runs cmake-js on native/CMakeLists.txt: configures build/native if necessary and builds the named targets. The addon
// uses only Node-API, whose headers come from the npm package node-api-headers, so nothing is downloaded, and an addon
// built with one version of Node runs in all others.
import cmakeJs from 'cmake-js';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parallel, root, run, SetupError, which } from './setup.mjs';

const targets = process.argv.slice(2);

// The CUDA backend takes minutes to build, so it is built only if a GPU is present (native/CMakeLists.txt checks) or on
// request.
const asksForCuda = process.env.MONOLITH_BUILD_CUDA === '1';
const cache = join(root, 'build', 'native', 'CMakeCache.txt');
const isStale = asksForCuda && existsSync(cache) && !/^MONOLITH_CUDA:[A-Z]+=ON$/m.test(readFileSync(cache, 'utf8'));

await run(async () => {
  const cmake = new cmakeJs.CMake({
    directory: join(root, 'native'),
    out: join(root, 'build', 'native'),
    isNodeApi: true,
    noLog: true, // otherwise, cmake-js prints every command that it runs
    generator: which('ninja') ? 'Ninja' : 'Unix Makefiles',
    parallel: String(parallel),
    cMakeOptions: {
      CMAKE_LIBRARY_OUTPUT_DIRECTORY: join(root, 'build', 'Release'),
      MONOLITH_TESTS: existsSync(join(root, 'test', 'native')) ? 'ON' : 'OFF',
      ...(asksForCuda ? { MONOLITH_CUDA: 'ON' } : {}),
    },
  });
  try {
    if (isStale) await cmake.configure();
    for (const target of targets) {
      cmake.options.target = target;
      await cmake.build();
    }
  } catch (error) {
    throw new SetupError(error instanceof Error ? error.message : String(error));
  }
});
