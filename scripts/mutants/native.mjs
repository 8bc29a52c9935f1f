// Mutants of native/engine. They are created with text patterns, because no C++ parser is available; mutants that do
// not compile do not count. The mutated file is compiled outside the tree and linked ahead of the libraries, so the
// checkout and its build stay unchanged. First the tests in the directory of the same name in test/native run, then the
// simulation and, with `--tests all`, all of tests_engine, which takes half a minute. Each stage stops at its first
// failure.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { root, say, SetupError } from '../setup.mjs';
import { compileCommand, isBuilt, link, nativeBuild, shell } from './native-build.mjs';

const kFolder = join(root, 'build', 'mutants', 'native');
const kSimulated = ['--steps', '400000', '--seed', '1', '--quiet'];

/** Patterns and their replacements within a line. */
const kChanges = [
  [/ < (?!<)/g, ' <= '],
  [/ <= /g, ' < '],
  [/ > (?!>)/g, ' >= '],
  [/ >= /g, ' > '],
  [/ == /g, ' != '],
  [/ != /g, ' == '],
  [/ && /g, ' || '],
  [/ \|\| /g, ' && '],
  [/ \+ (?!=)/g, ' - '],
  [/ - (?!=)/g, ' + '],
  [/\+\+/g, '--'],
  [/ \+= /g, ' -= '],
  [/ -= /g, ' += '],
  [/\btrue\b/g, 'false'],
  [/\bfalse\b/g, 'true'],
  [/std::min\b/g, 'std::max'],
  [/std::max\b/g, 'std::min'],
  [/\bif \(!/g, 'if ('],
  [/(?<![\w.])0(?![\w.])/g, '1'],
  [/(?<![\w.])1(?![\w.])/g, '2'],
];
const kStatement = /^\s+[a-z_][\w.>-]*(\(.*\)|\+\+);$/;
/**
 * Lines that are not mutated, because no test can or should detect a change in these lines: types, messages, assertions
 * and memory reservations.
 */
const kLeftAlone = /^\s*(#|\/\/|static_assert|assert|namespace|using|template)|\.reserve\(/;

/** @returns the results for the selected mutants of a directory or file, in the form that mutants.mjs reports */
export async function nativeMutants(folder, { pick, keep, whole }) {
  for (const target of ['tests_engine', 'simulate_engine'])
    if (!isBuilt(target))
      throw new SetupError(
        `mutants: ${target} is not built; run npm run build:native, then ninja -C build/native tests_engine simulate_engine`,
      );
  mkdirSync(kFolder, { recursive: true });
  const at = join(root, folder);
  const sources = statSync(at).isFile()
    ? [folder]
    : readdirSync(at, { recursive: true })
        .filter((name) => name.endsWith('.cc'))
        .sort()
        .map((name) => relative(root, join(at, name)));
  const stages = await stagesFor(statSync(at).isFile() ? dirname(folder) : folder, whole);
  const picked = pick(sources.flatMap(mutantsOf));
  const results = [];
  for (const [index, { source, line, what, code, text }] of picked.entries()) {
    const lines = readFileSync(join(root, source), 'utf8').split('\n');
    lines[line - 1] = text;
    const [file, object] = [join(kFolder, 'mutant.cc'), join(kFolder, 'mutant.o')];
    writeFileSync(file, lines.join('\n'));
    const compiles = shell(
      compileCommand(source, { file, object, more: ['-w', '-O0', `-I${join(root, dirname(source))}`] }),
    );
    let killer = null;
    for (const stage of compiles ? stages : []) {
      if (await stage.passes([object], stage.ms * 4 + 10_000)) continue;
      killer = stage.name;
      break;
    }
    if (compiles) results.push({ source, line, what, code, killer, tests: stages.length });
    keep(results);
    say(
      `${index + 1}/${picked.length} ${compiles ? (killer === null ? 'SURVIVED' : 'killed') : 'does not compile'}  ${source}:${line} ${what}${killer === null ? '' : `  (${killer})`}`,
    );
  }
  return results;
}

/** The test stages to run for each mutant, fastest first, each with the time it takes without a mutant. */
async function stagesFor(folder, whole) {
  const near = join('test', folder);
  const hasNear =
    existsSync(join(root, near)) && readdirSync(join(root, near)).some((name) => name.endsWith('_test.cc'));
  const all = [
    ...(hasNear
      ? [
          {
            name: near,
            target: 'tests_engine',
            only: (object) => object.includes(`/${near}/`),
            args: [],
          },
        ]
      : []),
    { name: 'simulation', target: 'simulate_engine', only: () => true, args: kSimulated },
    ...(whole ? [{ name: 'tests_engine', target: 'tests_engine', only: () => true, args: [] }] : []),
  ].map(({ name, target, only, args }) => ({
    name,
    ms: 0,
    passes: async (objects, limitMs) => {
      const program = join(kFolder, `mutant_${target}`);
      // Without this check, a link failure would count as a failing test.
      if (!link(target, { program, objects, only }))
        throw new SetupError(`mutants: ${name} does not link; another build may be running in this checkout`);
      return passes(program, args, limitMs);
    },
  }));
  for (const stage of all) {
    const began = Date.now();
    if (!(await stage.passes([], 600_000))) throw new SetupError(`mutants: ${stage.name} fails without a mutant`);
    stage.ms = Date.now() - began;
    say(`${stage.name} ${(stage.ms / 1000).toFixed(1)} s`);
  }
  return all;
}

/** @returns the mutants of a file, each with the new text of one line */
export function mutantsOf(source) {
  return mutantsIn(source, readFileSync(join(root, source), 'utf8'));
}

export function mutantsIn(source, whole) {
  return whole.split('\n').flatMap((text, row) => {
    const code = text.replace(/\/\/.*$/, '');
    if (kLeftAlone.test(text) || code.includes('"')) return [];
    const common = { source, line: row + 1, code: text.trim() };
    const found = kChanges.flatMap(([from, to]) =>
      [...code.matchAll(from)].map(({ 0: matched, index }) => ({
        ...common,
        what: `${matched.trim()} is ${to.trim()}, column ${index + 1}`,
        text: code.slice(0, index) + to + code.slice(index + matched.length),
      })),
    );
    if (kStatement.test(code.trimEnd())) found.push({ ...common, what: 'statement is gone', text: '' });
    return found;
  });
}

/** Stops the program at its first failing test. */
function passes(program, args, limitMs) {
  const child = spawn(program, args, { cwd: nativeBuild, stdio: ['ignore', 'pipe', 'ignore'] });
  return new Promise((resolve) => {
    const timer = setTimeout(() => child.kill('SIGKILL'), limitMs);
    let rest = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      rest = (rest + text).slice(-4_000);
      if (/^not ok /m.test(rest)) child.kill('SIGKILL');
    });
    child.on('close', (status) => {
      clearTimeout(timer);
      resolve(status === 0);
    });
  });
}
