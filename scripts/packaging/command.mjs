#!/usr/bin/env node
// Entry point of `monolith` and `monolith-server` in the npm package. If the package with the engine for this machine
// is not installed, it first builds the engine from the sources in this package.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { addonPackages } from '../../dist/engine/load-addon.js';
import { logPath } from '../run-command.mjs';
import { about, kAddonSeconds, missingTools, parallel, run, say, SetupError, sh, which } from '../setup.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const require = createRequire(import.meta.url);
const kBuilt = join(root, 'build', 'Release', 'monolith.node');
const kWithoutEngine = ['help', '--help', '-h', '--version', '-v', 'settings'];

function installed(name) {
  try {
    return require.resolve(`${name}/monolith.node`);
  } catch {
    return null;
  }
}

/** Builds the addon into this package's build/ directory. */
async function buildFromSource() {
  const name = addonPackages().at(-1);
  say(
    `the package with the engine for this machine, ${name}, is not installed; building the engine from its sources, once`,
  );
  const missing = missingTools();
  if (missing !== null) throw new SetupError(missing);
  say(
    `building the engine with ${parallel} compiler${parallel > 1 ? 's' : ''}: about ${about(kAddonSeconds / parallel)} on an idle machine`,
  );
  const include = [
    join(dirname(require.resolve('node-api-headers/package.json')), 'include'),
    dirname(require.resolve('node-addon-api/package.json')),
  ];
  const folder = join(root, 'build', 'native');
  await sh(
    'cmake',
    [
      '-S',
      join(root, 'native'),
      '-B',
      folder,
      '-G',
      which('ninja') ? 'Ninja' : 'Unix Makefiles',
      '-DCMAKE_BUILD_TYPE=Release',
      '-DMONOLITH_TESTS=OFF',
      `-DCMAKE_JS_INC=${include.join(';')}`,
      `-DCMAKE_LIBRARY_OUTPUT_DIRECTORY=${dirname(kBuilt)}`,
    ],
    'configuring the engine',
    { log: logPath('configure') },
  );
  await sh(
    'cmake',
    ['--build', folder, '--target', 'monolith', '--parallel', String(parallel)],
    'building the engine',
    {
      log: logPath('engine'),
      resumes: true,
    },
  );
  if (!existsSync(kBuilt)) throw new SetupError(`the build succeeded but produced no ${kBuilt}`);
}

await run(
  async () => {
    const named = (process.env.MONOLITH_ADDON ?? '') !== '';
    if (!kWithoutEngine.includes(process.argv[2]) && !named && !existsSync(kBuilt) && !addonPackages().some(installed))
      await buildFromSource();
    await import('../../dist/main.js');
  },
  { passesHelp: true },
);
