// The second half of npm run format: formats C++ and CUDA files with clang-format 14. --check changes nothing: it lists
// unformatted files and exits with code 1. If clang-format 14 is missing, the script reports that and exits with code
// 3, because other versions format differently.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './setup.mjs';

const FOLDERS = ['native', 'test/native', 'bench/native'];
const PROGRAMS = ['clang-format-14', 'clang-format'];
const FILES_PER_CALL = 100;

const program = PROGRAMS.find((name) =>
  /version 14\./.test(spawnSync(name, ['--version'], { encoding: 'utf8' }).stdout),
);
if (program === undefined) {
  process.stdout.write('clang-format 14 is not installed: C++ formatting is not checked\n');
  process.exit(3);
}
const isCheck = process.argv.includes('--check');
const files = FOLDERS.flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(cc|h|cu|cuh)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name)),
);
let failed = false;
for (let at = 0; at < files.length; at += FILES_PER_CALL) {
  const { status, stderr } = spawnSync(
    program,
    [...(isCheck ? ['--dry-run', '-Werror'] : ['-i']), ...files.slice(at, at + FILES_PER_CALL)],
    { cwd: root, encoding: 'utf8' },
  );
  if (status === 0) continue;
  failed = true;
  const names = new Set([...stderr.matchAll(/^(.*?):\d+:\d+: error/gm)].map(([, name]) => name));
  process.stdout.write(names.size > 0 ? [...names].map((name) => `not formatted: ${name}\n`).join('') : stderr);
}
process.exit(failed ? 1 : 0);
