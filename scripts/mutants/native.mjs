// Mutants of native/engine: found in the text of a line, as there is no parser of C++ here; what does not compile does not
// count. The file itself is changed and put back; should the run be killed, the next one puts it back first.
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { root, say, SetupError } from '../setup.mjs';
import { chosen } from './report.mjs';

const kBuild = join(root, 'build', 'native');
const kKept = join(root, 'build', 'mutants', 'kept.cc');
const kKeptName = join(root, 'build', 'mutants', 'kept.txt');
const kTests = 'tests_engine';
const kLimitMs = 600_000;

/** What is looked for in a line, and what stands in its place. */
const kChanges = [
  [/ < (?!<)/g, ' <= '], [/ <= /g, ' < '], [/ > (?!>)/g, ' >= '], [/ >= /g, ' > '], [/ == /g, ' != '], [/ != /g, ' == '],
  [/ && /g, ' || '], [/ \|\| /g, ' && '], [/ \+ (?!=)/g, ' - '], [/ - (?!=)/g, ' + '], [/\+\+/g, '--'], [/ \+= /g, ' -= '], [/ -= /g, ' += '],
  [/\btrue\b/g, 'false'], [/\bfalse\b/g, 'true'], [/std::min\b/g, 'std::max'], [/std::max\b/g, 'std::min'],
  [/\bif \(!/g, 'if ('], [/(?<![\w.])0(?![\w.])/g, '1'], [/(?<![\w.])1(?![\w.])/g, '2'],
];
const kStatement = /^\s+[a-z_][\w.>-]*(\(.*\)|\+\+);$/;

/** @returns what became of `sample` mutants of a folder or file, as mutants.mjs reports it */
export async function nativeMutants(folder, { sample, seed }) {
  putBack();
  if (build() !== 0) throw new SetupError(`mutants: ${kTests} does not build as it is (node scripts/build.mjs native tests sets it up)`);
  const before = test();
  if (!before.passed) throw new SetupError(`mutants: ${kTests} fails as it is`);
  const at = join(root, folder);
  const sources = statSync(at).isFile() ? [folder] : readdirSync(at, { recursive: true }).filter((name) => name.endsWith('.cc')).sort().map((name) => relative(root, join(at, name)));
  const picked = chosen(sources.flatMap(mutantsOf), sample, seed);
  const results = [];
  for (const [index, { source, line, what, text }] of picked.entries()) {
    const file = join(root, source);
    const whole = readFileSync(file, 'utf8');
    keep(file, source);
    const lines = whole.split('\n');
    const code = lines[line - 1].trim();
    lines[line - 1] = text;
    writeFileSync(file, lines.join('\n'));
    const isBuilt = build() === 0;
    const killed = isBuilt && !test(before.ms * 4 + 30_000).passed;
    putBack();
    if (isBuilt) results.push({ source, line, what, code, killer: killed ? kTests : null, tests: 1 });
    say(`${index + 1}/${picked.length} ${isBuilt ? (killed ? 'killed' : 'SURVIVED') : 'does not compile'}  ${source}:${line} ${what}`);
  }
  build();
  return results;
}

function mutantsOf(source) {
  return readFileSync(join(root, source), 'utf8').split('\n').flatMap((text, row) => {
    const code = text.replace(/\/\/.*$/, '');
    if (/^\s*(#|\/\/|static_assert|namespace|using|template)/.test(text) || code.includes('"')) return [];
    const found = kChanges.flatMap(([from, to]) => [...code.matchAll(from)].map(({ 0: matched, index }) =>
      ({ source, line: row + 1, what: `${matched.trim()} is ${to.trim()}`, text: code.slice(0, index) + to + code.slice(index + matched.length) })));
    if (kStatement.test(code.trimEnd())) found.push({ source, line: row + 1, what: 'statement is gone', text: '' });
    return found;
  });
}

const build = () => spawnSync('cmake', ['--build', kBuild, '--target', kTests], { stdio: 'ignore' }).status;

function test(limitMs = kLimitMs) {
  const began = Date.now();
  const { status } = spawnSync(join(kBuild, kTests), [], { cwd: kBuild, stdio: 'ignore', timeout: limitMs, killSignal: 'SIGKILL' });
  return { passed: status === 0, ms: Date.now() - began };
}

function keep(file, source) {
  mkdirSync(join(root, 'build', 'mutants'), { recursive: true });
  copyFileSync(file, kKept);
  writeFileSync(kKeptName, source);
}

function putBack() {
  if (!existsSync(kKeptName)) return;
  copyFileSync(kKept, join(root, readFileSync(kKeptName, 'utf8')));
  rmSync(kKeptName);
}
