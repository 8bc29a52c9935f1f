// npm test [-- FILES] [--jobs=N] [--reporter=tap] [--without-programs]: installs and builds what is missing, checks all
// types, runs the tests (build/test/**/*.test.js). With --reporter=tap, prints the output of all files, not only of
// those that fail. Programs that some tests need, such as PostgreSQL, are installed too (scripts/tools.mjs). With
// --without-programs, the tests that need a missing program are left out.
// npm run test:slow does the same for the tests that take long and rarely fail (*.slow.ts), one at a time. Then it runs
// all other tests on the Node.js versions in kOtherNodes.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { bundleServer, bundleTap } from './bundle.mjs';
import { fetchNode } from './fetch-node.mjs';
import { runTests } from './run-tests.mjs';
import {
  buildNative,
  buildTypeScript,
  buildWeb,
  ensurePackages,
  ensureTools,
  root,
  run,
  say,
  SetupError,
} from './setup.mjs';
import { missingTestPrograms, sayLeftOut } from './tools.mjs';

/** Major versions to test in addition to the installed version. */
const kOtherNodes = ['22', '26'];

// Most tests spend more time waiting than computing.
const kJobs = availableParallelism() + 2;

await run(async () => {
  const { values: options, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      slow: { type: 'boolean' },
      jobs: { type: 'string' },
      reporter: { type: 'string' },
      'without-programs': { type: 'boolean' },
    },
  });
  const files = positionals.length > 0 ? positionals : filesOf(options.slow ? '.slow.ts' : '.test.ts');
  const onOthers = options.slow === true && positionals.length === 0 ? filesOf('.test.ts') : [];
  const programs = missingTestPrograms([...files, ...onOthers]);
  if (options['without-programs']) sayLeftOut(programs);
  await ensureTools({ always: true, installs: true, tests: options['without-programs'] ? [] : programs });
  ensurePackages();
  // Both builds run concurrently, because the TypeScript compiler uses only one processor.
  await allOrNone([buildScripts(), buildNative({ tests: true, slow: options.slow === true })]);
  // Temporary files from all tests (data directories, models, browser profiles) are removed after the run, even if a
  // test crashed.
  const temporary = mkdtempSync(join(tmpdir(), 'monolith-tests-'));
  try {
    process.env.TMPDIR = temporary;
    const passed = await runTests(files, {
      jobs: Number(options.jobs ?? (options.slow ? 1 : kJobs)),
      timeoutS: options.slow ? 3600 : 300,
      wholeOutput: options.reporter === 'tap',
    });
    process.exitCode = passed && (await onOtherNodes(onOthers)) ? 0 : 1;
  } finally {
    rmSync(temporary, { recursive: true, force: true, maxRetries: 3 });
  }
});

/** Runs files on other Node.js versions, which come from npm. Resolves to whether all passed. */
async function onOtherNodes(files) {
  let passed = true;
  for (const version of files.length > 0 ? kOtherNodes : []) {
    const node = fetchNode(version);
    if (node === null) throw new SetupError(`test:slow: Node.js ${version} could not be installed from npm`);
    console.log(`# all tests on ${node}`);
    passed = (await runTests([...files], { jobs: kJobs, timeoutS: 600, wholeOutput: false, node })) && passed;
  }
  return passed;
}

async function buildScripts() {
  await buildTypeScript({ tests: true });
  await buildWeb({ check: true });
  await bundleTap();
  process.env.MONOLITH_TEST_MAIN = await bundleServer(); // test/e2e/monolith.ts starts it
}

/** Waits for all builds. If a build fails, immediately ends this process, and the other builds with it. */
async function allOrNone(builds) {
  try {
    await Promise.all(builds);
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    say(error.message);
    process.kill(process.pid, 'SIGTERM');
    await new Promise(() => undefined);
  }
}

/** The compiled tests whose sources exist. The compiler leaves the output of deleted files behind. */
function filesOf(ending) {
  return readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith(ending))
    .map((file) => join('build', 'test', file.replace(/ts$/, 'js')));
}
