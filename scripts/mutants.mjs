// npm run mutants -- FOLDER [--sample N] [--seed N] [--tests all | PREFIX,...] [--json FILE] [--again FILE] [--fresh]:
// mutation testing. Reports how many small faults in a directory of src/ the tests detect. Each mutant changes one
// place (mutants/operators.mjs) and is compiled separately into a copy of dist/. Then the tests that reach its line
// run, fastest first, until one fails. Survivors are listed for review: either a test is missing, or the change makes
// no difference.
//
// By default, the tests in the directory of the same name in test/ run; `--tests` selects others by path prefix below
// test/. `--again` retests the survivors of a run that was saved with `--json`, to check whether new tests detect them.
//
// Directories of native/engine use the native tests and the simulation (mutants/native.mjs).
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { buildTypeScript, root, run, say, SetupError } from './setup.mjs';
import { coverageOf } from './mutants/coverage.mjs';
import { nativeMutants } from './mutants/native.mjs';
import { compiled, mutantsOf } from './mutants/operators.mjs';
import { chosen, report, survivorsIn } from './mutants/report.mjs';
import { runTest } from './mutants/run-test.mjs';
import { makeSandbox, sandbox } from './mutants/sandbox.mjs';

const kTestLimitMs = 120_000;
/** A test slower than this may time out on a busy machine, so its failure counts only if it fails twice. */
const kSlowMs = 3_000;
/** Excluded from `--tests all` because they take too long: browser tests, builds and native tests. */
const kLeftOut = ['web/', 'native/', 'repo-checks/', 'addon/', 'bench/'];

await run(async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      sample: { type: 'string', default: '100' },
      seed: { type: 'string', default: '1' },
      tests: { type: 'string' },
      json: { type: 'string' },
      again: { type: 'string' },
      fresh: { type: 'boolean', default: false },
    },
  });
  const [folder] = positionals;
  if (folder === undefined || positionals.length > 1 || !existsSync(join(root, folder)))
    throw new SetupError(
      'mutants: expected one folder or file of src/ or native/engine, e.g. npm run mutants -- src/admission',
    );
  const sample = whole(values.sample, '--sample');
  const seed = whole(values.seed, '--seed');
  const again = values.again === undefined ? null : JSON.parse(readFileSync(values.again, 'utf8'));
  const pick = (all) => (again === null ? chosen(all, sample, seed) : survivorsIn(again, all));
  const keep = (results) =>
    values.json !== undefined && writeFileSync(values.json, `${JSON.stringify(results, null, 1)}\n`);
  const results = folder.startsWith('native/')
    ? await nativeMutants(folder, { pick, keep, whole: values.tests === 'all' })
    : await scriptMutants(folder, { pick, keep, tests: values.tests, fresh: values.fresh });
  report(results);
});

async function scriptMutants(folder, { pick, keep, tests, fresh }) {
  if (!folder.startsWith('src/')) throw new SetupError(`mutants: ${folder} must be in src/ or native/engine`);
  await buildTypeScript({ tests: true });
  makeSandbox();
  const all = sourcesIn(folder).flatMap((source) => {
    const text = readFileSync(join(root, source), 'utf8');
    const lines = text.split('\n');
    return mutantsOf(source, text).map((mutant) => ({
      source,
      text,
      mutant,
      line: mutant.line,
      what: mutant.what,
      code: lines[mutant.line - 1].trim(),
    }));
  });
  const picked = pick(all);
  say(`${all.length} mutants, testing ${picked.length}`);
  const reaching = await coverageMap(folder, testsFor(folder, tests), fresh);
  const results = [];
  for (const [at, { source, text, mutant, line, what, code }] of picked.entries()) {
    const file = join(sandbox, source.replace(/^src\//, 'dist/').replace(/\.ts$/, '.js'));
    const whole = readFileSync(file);
    writeFileSync(file, compiled(source, text, mutant));
    let killer = null;
    const able = reaching.filter(({ lines }) => lines[source]?.includes(line) ?? false).sort((a, b) => a.ms - b.ms);
    for (const { test, ms } of able) {
      if (await survives(join(sandbox, 'build', 'test', test), ms)) continue;
      killer = test;
      break;
    }
    writeFileSync(file, whole);
    results.push({ source, line, what, code, killer, tests: able.length });
    keep(results);
    say(
      `${at + 1}/${picked.length} ${killer === null ? (able.length === 0 ? 'NOT REACHED' : 'SURVIVED') : 'killed'}  ${source}:${line} ${what}${killer === null ? '' : `  (${killer})`}`,
    );
  }
  return results;
}

async function survives(test, ms) {
  const limitMs = ms * 4 + 10_000;
  const first = await runTest(test, { limitMs });
  if (first.passed) return true;
  return (first.timedOut || ms > kSlowMs) && (await runTest(test, { limitMs })).passed;
}

/** @param {string | undefined} wanted the value of `--tests` */
function testsFor(folder, wanted) {
  const all = filesIn(join(sandbox, 'build', 'test'), '.test.js');
  if (wanted === 'all') return all.filter((test) => !kLeftOut.some((left) => test.startsWith(left)));
  const prefixes = wanted?.split(',') ?? [`${folder.split('/')[1]}/`];
  const some = all.filter((test) => prefixes.some((prefix) => test.startsWith(prefix)));
  if (some.length === 0)
    throw new SetupError(`mutants: no tests found in ${prefixes.join(' or ')}; use --tests to name others`);
  return some;
}

/**
 * For every test, its duration and the lines in the directory that it reaches. Cached until the compiled code or the
 * test changes.
 */
async function coverageMap(folder, tests, fresh) {
  const store = join(root, 'build', 'mutants', `coverage-${folder.replaceAll('/', '-')}.json`);
  const dist = hashOf(filesIn(join(sandbox, 'dist'), '.js').map((file) => join(sandbox, 'dist', file)));
  const kept = fresh || !existsSync(store) ? {} : JSON.parse(readFileSync(store, 'utf8'));
  const all = kept.dist === dist ? kept : { dist, tests: {} };
  const known = all.tests;
  const built = join(sandbox, 'build', 'test');
  const supports = filesIn(join(built, 'support'), '.js').map((file) => join(built, 'support', file));
  for (const [at, test] of tests.entries()) {
    const beside = readdirSync(join(built, dirname(test)))
      .filter((name) => name.endsWith('.js') && !name.endsWith('.test.js'))
      .map((name) => join(built, dirname(test), name));
    const hash = hashOf([join(built, test), ...beside, ...supports]);
    if (known[test]?.hash === hash) continue;
    const measured = () =>
      coverageOf(join(built, test), folder.replace(/^src\//, '').replace(/\.ts$/, '.js'), kTestLimitMs);
    let { passed, ms, lines } = await measured();
    if (!passed) ({ passed, ms, lines } = await measured()); // the machine may have been busy
    known[test] = { hash, ms, passed, lines };
    say(
      `${at + 1}/${tests.length} ${test} ${(ms / 1000).toFixed(1)} s${passed ? '' : '  FAILS WITHOUT A MUTANT: skipped'}`,
    );
    if (!passed) known[test].hash = ''; // so that it is measured again next time
    mkdirSync(join(root, 'build', 'mutants'), { recursive: true });
    writeFileSync(store, JSON.stringify(all));
  }
  return tests.filter((test) => known[test].passed).map((test) => ({ test, ...known[test] }));
}

function hashOf(files) {
  const state = createHash('sha256');
  for (const file of files) state.update(file).update(readFileSync(file));
  return state.digest('hex');
}

function filesIn(folder, ending) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith(ending))
    .sort();
}

function sourcesIn(folder) {
  const at = join(root, folder);
  if (statSync(at).isFile()) return [folder];
  return filesIn(at, '.ts').map((name) => relative(root, join(at, name)));
}

function whole(text, flag) {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1)
    throw new SetupError(`mutants: ${flag} must be a positive integer (got "${text}")`);
  return number;
}
