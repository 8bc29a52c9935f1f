// Compiles one mutated file of the engine and links programs with it in place of the library's version. Reuses the
// compile and link commands of the existing CMake build without changing that build.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, SetupError } from '../setup.mjs';

export const nativeBuild = join(root, 'build', 'native');

export const isBuilt = (target) =>
  existsSync(join(nativeBuild, target)) && existsSync(join(nativeBuild, 'build.ninja'));

/** @returns whether a command line, run in the build directory, succeeded */
export function shell(command, { output = 'ignore' } = {}) {
  return spawnSync('/bin/sh', ['-c', command], { cwd: nativeBuild, stdio: ['ignore', output, output] }).status === 0;
}

let commands;
/** Returns the command that compiles `source`, modified to compile `file` into `object`. */
export function compileCommand(source, { file = join(root, source), object, more = [] }) {
  commands ??= JSON.parse(readFileSync(join(nativeBuild, 'compile_commands.json'), 'utf8'));
  const entry = commands.find((one) => one.file === join(root, source));
  if (entry === undefined) throw new SetupError(`${source} is not part of the build`);
  return entry.command.replace(
    / -o \S+ -c \S+$/,
    ` ${more.map(quoted).join(' ')} -o ${quoted(object)} -c ${quoted(file)}`,
  );
}

/** Links `target` as `program`, with `objects` ahead of its libraries; `only` filters the target's own objects. */
export function link(target, { program, objects, only = () => true, more = [] }) {
  const asked = spawnSync('ninja', ['-C', nativeBuild, '-t', 'commands', '-s', target], { encoding: 'utf8' });
  const line = asked.stdout?.trim().split('\n').at(-1) ?? '';
  const words = line
    .replace(/^: && /, '')
    .replace(/ && :$/, '')
    .split(' ')
    .filter((word) => word !== '');
  const at = words.indexOf('-o');
  if (at < 0) throw new SetupError(`ninja has no link command for ${target}`);
  words[at + 1] = quoted(program);
  const own = (word) => word.startsWith(`CMakeFiles/${target}.dir/`);
  const kept = words.filter((word) => !own(word) || only(word));
  const first = kept.findIndex(own);
  kept.splice(first, 0, ...objects.map(quoted), ...more);
  return shell(kept.join(' '));
}

const quoted = (word) => (/^[\w./=+,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
