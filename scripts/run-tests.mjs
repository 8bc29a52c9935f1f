// Runs compiled test files, several at a time, and reports the results in TAP. `tap run` does the same, but it loads a
// TypeScript compiler and other hooks into every test process and every server that a test starts: about two seconds of
// CPU time per file.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { root } from './setup.mjs';

/** Files that measure times. They run after the others, one at a time. */
const kAlone = [
  'admission/shared-processes',
  'bench/victim',
  'e2e/structured-bombs',
  'generation/upstream/servers',
  'operator/tuning',
  'shared/resolve-host',
];

/** Linux reports CPU times in hundredths of a second. */
const kTickMs = 10;

/** Time for a process to exit after its last test. */
const kExitMs = 60_000;

/** The slowest files and directories, slowest first. They start first so that none runs alone at the end. */
const kFirst = [
  'native/engine',
  'native/native',
  'native/model',
  'e2e/shutdown',
  'bench/make-model',
  'e2e/traces',
  'e2e/shared-responses',
  'cli/commands',
  'e2e/structured',
  'web/playground',
  'simulation',
  'e2e',
  'web',
  'cli',
];

/**
 * Runs the files and resolves to whether all passed.
 *
 * @param {string[]} files paths of compiled tests
 * @param {{ jobs: number, timeoutS: number, wholeOutput: boolean, node?: string }} options `timeoutS`: time limit for
 * files that do not set their own; `wholeOutput`: print the TAP output of every file, not only of those that fail;
 * `node`:
 *   the Node.js program to run them with
 */
export async function runTests(files, { jobs, timeoutS, wholeOutput, node = process.execPath }) {
  const began = performance.now();
  const running = new Set();
  process.once('exit', () => running.forEach((child) => child.kill()));
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => process.exit(1));

  const totals = new Map();
  let ended = 0;
  let failed = 0;
  console.log('TAP version 14');
  const runOne = async (name) => {
    const { output, problem, ms, cpuMs } = await runFile(name, { timeoutS, running, node });
    const counts = countsOf(output);
    if (problem !== null && !counts.has('fail')) counts.set('fail', 1).set('total', (counts.get('total') ?? 0) + 1);
    for (const [key, count] of counts) totals.set(key, (totals.get(key) ?? 0) + count);
    if (problem !== null) failed++;
    if (wholeOutput || problem !== null) {
      console.log(`# Subtest: ${name}`);
      console.log(output.replace(/^TAP version 14\n/, '').replace(/^(?=.)/gm, '    '));
    }
    const result = problem === null ? 'ok' : 'not ok';
    const cpu = cpuMs === null ? '' : ` cpu=${cpuMs}ms`;
    console.log(`${result} ${++ended} - ${name} # time=${Math.round(ms)}ms${cpu}`);
    if (problem !== null) console.log(`  ---\n  message: ${problem}\n  ...`);
  };
  const lane = async (names) => {
    for (let name = names.shift(); name !== undefined; name = names.shift()) await runOne(name);
  };
  const names = inOrder(files.map((file) => relative(root, file)));
  const together = names.filter((name) => !kAlone.includes(testOf(name)));
  const alone = names.filter((name) => kAlone.includes(testOf(name)));
  await Promise.all(Array.from({ length: jobs }, () => lane(together)));
  await lane(alone);

  console.log(`1..${ended}`);
  if (failed > 0) console.log(`# failed ${failed} of ${ended} files`);
  console.log(`# { ${[...totals].map(([key, count]) => `${key}: ${count}`).join(', ')} }`);
  console.log(`# time=${Math.round(performance.now() - began)}ms`);
  return failed === 0;
}

/** 'e2e/limits' for build/test/e2e/limits.test.js. */
function testOf(name) {
  return relative(join('build', 'test'), name).replace(/\.test\.js$/, '');
}

function inOrder(names) {
  const rank = (name) => {
    const test = testOf(name);
    const at = kFirst.findIndex((first) => test === first || test.startsWith(`${first}/`));
    return at === -1 ? kFirst.length : at;
  };
  return names.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

/** Runs one file. `problem` is null if it passed. `cpuMs` includes the servers that the test has stopped. */
function runFile(name, { timeoutS, running, node }) {
  return new Promise((resolve) => {
    const began = performance.now();
    const child = spawn(node, ['--enable-source-maps', name], {
      cwd: root,
      // Some build servers force colors. Tests would then find escape sequences in the output that they compare.
      env: { ...process.env, TAP_TIMEOUT: String(timeoutS), FORCE_COLOR: undefined },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    running.add(child);
    // The tests end at their own time limits, unless the event loop is blocked. The process may keep running after its
    // last test.
    const kill = () => child.kill('SIGKILL');
    let limit = setTimeout(kill, 6000 * timeoutS);
    let output = '';
    let cpuMs = null;
    child.stdout.setEncoding('utf8').on('data', (text) => {
      output += text;
      if (!/^# time=/m.test(text)) return;
      cpuMs = cpuTime(child.pid);
      clearTimeout(limit);
      limit = setTimeout(kill, kExitMs);
    });
    child.on('error', (error) => {
      output += `${error.message}\n`;
    });
    child.on('close', (code, signal) => {
      clearTimeout(limit);
      running.delete(child);
      let problem = code === 0 ? null : `exited with ${signal ?? code}`;
      if (code === 0 && countsOf(output).size === 0) problem = 'no result';
      resolve({ output, problem, ms: performance.now() - began, cpuMs });
    });
  });
}

/** The CPU time of a process and of its children that have exited, in ms. Null if unknown. */
function cpuTime(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1).split(' ');
    return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) * kTickMs;
  } catch {
    return null;
  }
}

/** The counts in tap's last lines: "# { total: 9, pass: 8, fail: 1 }". */
function countsOf(output) {
  const line = /^# \{ (total: .*) \}$/m.exec(output)?.[1] ?? '';
  return new Map([...line.matchAll(/(\w+): (\d+)/g)].map(([, key, count]) => [key, Number(count)]));
}
