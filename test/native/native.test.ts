// Runs the native test executables built by scripts/build.mjs. Some executables have their own test file and are not
// run here.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';
import { folder, kLong, kSlow, runNative } from './executables.js';

const built = spawnSync(process.execPath, [join(packageRoot, 'scripts', 'build.mjs'), 'native', 'tests'], {
  encoding: 'utf8',
});
if (built.status !== 0) t.comment(built.stderr);
t.equal(built.status, 0, 'the native tests build');

const executables = readdirSync(folder, { withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.startsWith('tests_'))
  .map(({ name }) => name)
  .sort(); // the build directory also contains subdirectories
t.ok(executables.length >= 6, `there is one executable per module: ${executables.join(', ')}`);
for (const name of executables) if (![...kLong, ...kSlow].includes(name)) runNative(name);
