// Branch coverage of native/engine with gcov: its files are compiled again with instrumentation and linked ahead of the
// libraries of the existing build. Branches taken only by exceptions and branches in assertions do not count.
// Synchronous: blocks the process.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { compileCommand, isBuilt, link, shell } from '../mutants/native-build.mjs';
import { root, say, SetupError } from '../setup.mjs';

const kOut = join(root, 'build', 'coverage', 'native');
const kLimitMs = 1_800_000;
/** Excluded: kernels that are compiled once per instruction set, because the backend tests cover them. */
const kLeftOut = /_(avx2|avx512|amx|plain)\.cc$/;

export async function nativeBranches(folder) {
  if (!isBuilt('tests_engine'))
    throw new SetupError(
      'coverage: tests_engine is not built; run npm run build:native, then ninja -C build/native tests_engine',
    );
  const at = join(root, folder);
  const sources = statSync(at).isFile()
    ? [folder]
    : readdirSync(at, { recursive: true })
        .filter((name) => name.endsWith('.cc') && !kLeftOut.test(name))
        .sort()
        .map((name) => relative(root, join(at, name)));
  rmSync(kOut, { recursive: true, force: true });
  mkdirSync(kOut, { recursive: true });
  const objects = [];
  for (const [index, source] of sources.entries()) {
    const object = join(kOut, `${source.replaceAll('/', '-')}.o`);
    if (!shell(compileCommand(source, { object, more: ['-w', '-O0', '--coverage'] }), { output: 2 }))
      throw new SetupError(`coverage: ${source} does not compile`);
    objects.push(object);
    say(`${index + 1}/${sources.length} ${source}`);
  }
  const program = join(kOut, 'tests_engine');
  if (!link('tests_engine', { program, objects, more: ['--coverage'] }))
    throw new SetupError('coverage: tests_engine does not link');
  say('running tests_engine');
  const { status } = spawnSync(program, [], { cwd: kOut, stdio: 'ignore', timeout: kLimitMs });
  if (status !== 0) say(`tests_engine exited with ${status}`);
  const files = new Map();
  for (const object of objects) {
    spawnSync('gcov', ['--branch-probabilities', '--json-format', object], { cwd: kOut, stdio: 'ignore' });
  }
  for (const name of readdirSync(kOut).filter((name) => name.endsWith('.gcov.json.gz'))) {
    for (const { file, lines } of JSON.parse(gunzipSync(readFileSync(join(kOut, name))).toString()).files) {
      const path = relative(root, file);
      if (path === folder || path.startsWith(`${folder}/`)) add(files, path, lines);
    }
  }
  return [...files].map(([name, counted]) => summary(name, readFileSync(join(root, name), 'utf8'), counted));
}

/**
 * Adds one report's line counts to `files`. A line in a header has counts for each file that includes it, and a line in
 * a template has counts for each instantiation; a branch counts as taken if it is taken in at least one of them.
 */
export function add(files, path, lines) {
  const counted = files.get(path) ?? new Map();
  for (const { line_number: line, branches } of lines) {
    const own = branches
      .filter((branch, at) => !branch.throw && !branches[at + 1]?.throw)
      .map(({ count }) => count > 0);
    if (own.length === 0) continue;
    const groups = counted.get(line) ?? [];
    const same = groups.findIndex((group) => group.length === own.length);
    if (same < 0) groups.push(own);
    else groups[same] = groups[same].map((taken, at) => taken || own[at]);
    counted.set(line, groups);
  }
  files.set(path, counted);
}

/** `whole`: the file's full text. */
export function summary(name, whole, counted) {
  const text = whole.split('\n');
  const lines = [];
  let [taken, all] = [0, 0];
  for (const [line, groups] of [...counted].sort(([a], [b]) => a - b)) {
    if (/\bassert\(/.test(text[line - 1] ?? '')) continue;
    const branches = groups.flat();
    all += branches.length;
    taken += branches.filter(Boolean).length;
    if (branches.includes(false)) lines.push(line);
  }
  return { name, taken, all, lines };
}
