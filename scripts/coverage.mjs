// npm run coverage [-- FOLDER...] [--tests PREFIX,...] [--lines]: prints, for each file in a directory of src/ or
// native/engine, how many of its branches the tests take. Default directories: native/engine, src/admission,
// src/storage, src/accounts. `--lines` lists the lines with untaken branches.
//
// TypeScript coverage comes from V8. It covers the tests in the directory of the same name in test/, or the tests that
// `--tests` selects by path prefix below test/. A process that is killed reports no counts. C++ coverage comes from
// gcov while tests_engine runs. This recompiles every file in the directory, which takes about five minutes on one core
// for the whole engine.
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { nativeBranches } from './coverage/native.mjs';
import { scriptBranches } from './coverage/script.mjs';
import { buildTypeScript, root, run, say, SetupError } from './setup.mjs';
import { runTest } from './mutants/run-test.mjs';

const kFolders = ['src/admission', 'src/accounts', 'src/storage', 'native/engine'];
const kTestLimitMs = 600_000;

await run(async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { tests: { type: 'string' }, lines: { type: 'boolean', default: false } },
  });
  const folders = positionals.length > 0 ? positionals.map((folder) => folder.replace(/\/+$/, '')) : kFolders;
  for (const folder of folders) {
    if (!/^(src|native\/engine)(\/|$)/.test(folder) || !existsSync(join(root, folder)))
      throw new SetupError(`coverage: ${folder} is not a folder of src/ or native/engine`);
  }
  if (folders.some((folder) => folder.startsWith('src'))) await buildTypeScript({ tests: true });
  for (const folder of folders)
    print(
      folder,
      folder.startsWith('src') ? await ofScripts(folder, values.tests) : await nativeBranches(folder),
      values.lines,
    );
});

async function ofScripts(folder, wanted) {
  const prefixes = wanted?.split(',') ?? [`${folder.split('/')[1]}/`];
  const built = join(root, 'build', 'test');
  const tests = readdirSync(built, { recursive: true })
    .filter((name) => name.endsWith('.test.js') && prefixes.some((prefix) => name.startsWith(prefix)))
    .sort();
  if (tests.length === 0)
    throw new SetupError(`coverage: no tests found in ${prefixes.join(' or ')}; use --tests to name others`);
  const counts = join(root, 'build', 'coverage', folder.replaceAll('/', '-'));
  rmSync(counts, { recursive: true, force: true });
  mkdirSync(counts, { recursive: true });
  for (const test of tests) {
    const { passed, ms } = await runTest(join(built, test), { limitMs: kTestLimitMs, coverage: counts, folder: root });
    say(`${test} ${(ms / 1000).toFixed(1)} s${passed ? '' : '  FAILED'}`);
  }
  return scriptBranches(folder, counts);
}

/** `files`: for each file, its name, the number of branches taken and in total, and the lines with untaken branches. */
function print(folder, files, withLines) {
  const line = (name, taken, all) =>
    `${name.padEnd(58)} ${String(taken).padStart(5)} of ${String(all).padStart(5)}  ${(all === 0 ? 100 : (100 * taken) / all).toFixed(1).padStart(5)} %`;
  console.log(`\nBranches of ${folder}`);
  for (const { name, taken, all, lines } of files.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    console.log(line(name, taken, all));
    if (withLines && lines.length > 0) console.log(`    ${lines.join(' ')}`);
  }
  const sum = (of) => files.reduce((total, file) => total + of(file), 0);
  console.log(
    line(
      'all',
      sum(({ taken }) => taken),
      sum(({ all }) => all),
    ),
  );
}
