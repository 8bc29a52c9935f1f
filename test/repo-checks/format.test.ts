// Checks the whole tree's formatting and lint, with the configuration of `npm run lint` and `npm run format`.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import t from 'tap';
import { root } from '../e2e/monolith.js';

t.test('TypeScript is formatted and passes lint', (t) => {
  const { status, stdout, stderr } = spawnSync(
    join(root, 'node_modules', '.bin', 'biome'),
    ['ci', '--colors=off', '.'],
    {
      cwd: root,
      encoding: 'utf8',
    },
  );
  t.equal(status, 0, `npm run lint\n${stdout}${stderr}`);
  t.end();
});

const native = spawnSync(process.execPath, [join(root, 'scripts', 'format-native.mjs'), '--check'], {
  cwd: root,
  encoding: 'utf8',
});

t.test('C++ and CUDA are formatted', { skip: native.status === 3 ? native.stdout.trim() : false }, (t) => {
  t.equal(native.status, 0, `npm run format\n${native.stdout}${native.stderr}`);
  t.end();
});
