// npm run mutants -- FOLDER [--sample N] [--seed N] [--tests PREFIX,...] [--json FILE] [--fresh]: how many small faults in
// a folder of src/ the tests find. Each mutant is one changed place (mutants/operators.mjs), compiled alone and put into a
// copy of dist/; the tests that reach its line run, the quickest first, until one fails. What survives is listed to be read:
// it is a missing test, or a change that makes no difference.
//
// A folder of native/engine is done the same way with the tests_engine executable (mutants/native.mjs), a build for each.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { buildTypeScript, root, run, say, SetupError } from './setup.mjs';
import { coverageOf } from './mutants/coverage.mjs';
import { nativeMutants } from './mutants/native.mjs';
import { compiled, mutantsOf } from './mutants/operators.mjs';
import { chosen, report } from './mutants/report.mjs';
import { runTest } from './mutants/run-test.mjs';
import { makeSandbox, sandbox } from './mutants/sandbox.mjs';

const kTestLimitMs = 120_000;
/** Not worth their time for a mutant: pages in a browser, builds, the engine's own. */
const kLeftOut = ['web/', 'native/', 'house/', 'addon/', 'bench/'];

await run(async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { sample: { type: 'string', default: '100' }, seed: { type: 'string', default: '1' }, tests: { type: 'string' }, json: { type: 'string' }, fresh: { type: 'boolean', default: false } },
  });
  const [folder] = positionals;
  if (folder === undefined || positionals.length > 1 || !existsSync(join(root, folder))) throw new SetupError('mutants: name one folder or file of src/ or native/engine, e.g. npm run mutants -- src/admission');
  const sample = whole(values.sample, '--sample');
  const seed = whole(values.seed, '--seed');
  const results = folder.startsWith('native/') ? await nativeMutants(folder, { sample, seed }) : await scriptMutants(folder, { sample, seed, tests: values.tests?.split(','), fresh: values.fresh });
  report(results);
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(results, null, 1)}\n`);
});

async function scriptMutants(folder, { sample, seed, tests, fresh }) {
  if (!folder.startsWith('src/')) throw new SetupError(`mutants: ${folder} is neither in src/ nor in native/engine`);
  await buildTypeScript({ tests: true });
  makeSandbox();
  const reaching = await coverageMap(folder, tests, fresh);
  const all = sourcesIn(folder).flatMap((source) => {
    const text = readFileSync(join(root, source), 'utf8');
    return mutantsOf(source, text).map((mutant) => ({ source, text, mutant }));
  });
  const picked = chosen(all, sample, seed);
  say(`${all.length} mutants, ${picked.length} of them tried`);
  const results = [];
  for (const [at, { source, text, mutant }] of picked.entries()) {
    const file = join(sandbox, source.replace(/^src\//, 'dist/').replace(/\.ts$/, '.js'));
    const whole = readFileSync(file);
    writeFileSync(file, compiled(source, text, mutant));
    let killer = null;
    const able = reaching.filter(({ lines }) => lines[source]?.includes(mutant.line) ?? false).sort((a, b) => a.ms - b.ms);
    for (const { test, ms } of able) {
      const { passed } = await runTest(join(sandbox, 'build', 'test', test), { limitMs: ms * 4 + 10_000 });
      if (!passed) {
        killer = test;
        break;
      }
    }
    writeFileSync(file, whole);
    const { line, what } = mutant;
    results.push({ source, line, what, code: text.split('\n')[line - 1].trim(), killer, tests: able.length });
    say(`${at + 1}/${picked.length} ${killer === null ? (able.length === 0 ? 'NOT REACHED' : 'SURVIVED') : 'killed'}  ${source}:${line} ${what}${killer === null ? '' : `  (${killer})`}`);
  }
  return results;
}

/** Of every test: how long it takes, and what lines of the folder it reaches. Kept until the compiled code changes. */
async function coverageMap(folder, prefixes, fresh) {
  const tests = filesIn(join(sandbox, 'build', 'test'), '.test.js').filter((test) =>
    prefixes === undefined ? !kLeftOut.some((left) => test.startsWith(left)) : prefixes.some((prefix) => test.startsWith(prefix)));
  const store = join(root, 'build', 'mutants', 'coverage.json');
  const state = createHash('sha256');
  for (const file of [...filesIn(join(sandbox, 'dist'), '.js'), ...filesIn(join(sandbox, 'build', 'test'), '.js')]) state.update(file);
  for (const file of filesIn(join(sandbox, 'dist'), '.js')) state.update(readFileSync(join(sandbox, 'dist', file)));
  const key = `${folder} ${state.digest('hex')}`;
  const kept = fresh || !existsSync(store) ? {} : JSON.parse(readFileSync(store, 'utf8'));
  const known = kept.key === key ? kept.tests : {};
  for (const [at, test] of tests.entries()) {
    if (known[test] !== undefined) continue;
    const { passed, ms, lines } = await coverageOf(join(sandbox, 'build', 'test', test), folder.replace(/^src\//, '').replace(/\.ts$/, '.js'), kTestLimitMs);
    known[test] = { ms, passed, lines };
    say(`${at + 1}/${tests.length} ${test} ${(ms / 1000).toFixed(1)} s${passed ? '' : '  FAILS BY ITSELF: left out'}`);
    mkdirSync(join(root, 'build', 'mutants'), { recursive: true });
    writeFileSync(store, JSON.stringify({ key, tests: known }));
  }
  return tests.filter((test) => known[test].passed).map((test) => ({ test, ...known[test] }));
}

function filesIn(folder, ending) {
  return readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(ending)).sort();
}

function sourcesIn(folder) {
  const at = join(root, folder);
  if (statSync(at).isFile()) return [folder];
  return filesIn(at, '.ts').map((name) => relative(root, join(at, name)));
}

function whole(text, flag) {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1) throw new SetupError(`mutants: ${flag} must be a whole number from 1 on, not "${text}"`);
  return number;
}
