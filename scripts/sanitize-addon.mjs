// npm run test:sanitize:addon [address | thread] [test...]: builds the addon twice, once with AddressSanitizer and
// UndefinedBehaviorSanitizer and once with ThreadSanitizer, and runs end-to-end tests whose servers load it. Node
// itself is not instrumented: the sanitizer's runtime is preloaded and checks the addon's code and the functions it
// calls. Tests are paths below test/ without the extension; the default is the list below.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { include_dir as nodeApi } from 'node-api-headers';
import {
  buildTypeScript,
  dropStaleBuild,
  ensurePackages,
  missingTools,
  parallel,
  root,
  run,
  say,
  SetupError,
  sh,
  which,
} from './setup.mjs';

const kKinds = {
  // Leak detection is off: V8 exits without freeing its memory, including the addon's handles.
  address: {
    folder: 'asan-addon',
    flags: 'address;undefined',
    runtime: 'libasan.so',
    options: (log) => ({
      ASAN_OPTIONS: `detect_leaks=0:log_path=${log}`,
      UBSAN_OPTIONS: `print_stacktrace=1:log_path=${log}`,
    }),
  },
  thread: {
    folder: 'tsan-addon',
    flags: 'thread',
    runtime: 'libtsan.so',
    options: (log) => ({ TSAN_OPTIONS: `report_signal_unsafe=0:exitcode=0:log_path=${log}` }),
  },
};
const kTests = [
  'e2e/chat-tools',
  'e2e/cancellation',
  'e2e/structured',
  'e2e/vision',
  'e2e/limits',
  'e2e/responses-stored',
  'e2e/model-lifecycle',
];
const kLimitMs = 900_000; // per test: sanitizers typically make a test ten times slower

const words = process.argv.slice(2);
const kinds = Object.keys(kKinds).filter((kind) => words.includes(kind));
const tests = words.filter((word) => !(word in kKinds));

// These patterns select the reports that count. Node, V8, LMDB and libvips are not instrumented, so ThreadSanitizer
// does not see their synchronization. Accesses in their own code are ignored, even when the addon calls them. So are
// accesses to pixels that libvips threads wrote before the addon received them. AddressSanitizer intercepts the
// allocations and copies in these libraries, so its reports are always valid.
const kRuntime = /^lib(tsan|stdc\+\+|c|pthread)\.so/;
const isOurAccess = (stack) =>
  [...stack.matchAll(/^ +#\d+ .*\(([^()+]+)\+0x/gm)]
    .map(([, module]) => module)
    .find((module) => !kRuntime.test(module)) === 'monolith.node';
const isOurs = (report) =>
  /ERROR:|FATAL:|CHECK failed/.test(report) ||
  (!report.includes('(libvips-') &&
    report.split('\n\n').some((part) => !/^ +(Thread|Location)/.test(part) && isOurAccess(part)));
const reportsIn = (kind, log) => (kind === 'address' ? [log] : log.split(/^={18}$/m).filter(isOurs));

// Compiling takes most of a run's time, so precompile the standard headers and optimize little.
const kQuick = ['-DMONOLITH_QUICK=ON', '-DMONOLITH_CUDA=OFF', '-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1'];

// Disable address-space randomization: newer kernels randomize more than older sanitizer runtimes support.
const plainSpace = which('setarch') ? ['setarch', '-R'] : [];

await run(async () => {
  const missing = missingTools();
  if (missing !== null) throw new SetupError(missing);
  ensurePackages();
  await buildTypeScript({ tests: true });
  const fileOf = (test) => join(root, 'build', 'test', `${test}.test.js`);
  const chosen = tests.length > 0 ? tests : kTests;
  // Checked before the long build.
  for (const test of chosen) if (!existsSync(fileOf(test))) throw new SetupError(`test not found: ${test}`);
  const results = [];
  for (const kind of kinds.length > 0 ? kinds : Object.keys(kKinds)) {
    const { folder, flags, runtime, options } = kKinds[kind];
    const build = join(root, 'build', folder);
    dropStaleBuild(build);
    await sh(
      'cmake',
      [
        '-S',
        'native',
        '-B',
        build,
        '-G',
        which('ninja') ? 'Ninja' : 'Unix Makefiles',
        '-DCMAKE_BUILD_TYPE=RelWithDebInfo',
        ...kQuick,
        `-DMONOLITH_SANITIZE=${flags}`,
        `-DCMAKE_JS_INC=${nodeApi};${join(root, 'node_modules', 'node-addon-api')}`,
      ],
      `configuring ${kind}`,
    );
    await sh('cmake', ['--build', build, '--parallel', String(parallel), '--target', 'monolith'], `building ${kind}`);
    const addon = join(build, 'monolith.node');
    if (!existsSync(addon)) throw new SetupError(`the build succeeded but produced no ${addon}`);
    const library = execFileSync(process.env.CXX ?? 'c++', [`-print-file-name=${runtime}`], {
      encoding: 'utf8',
    }).trim();
    if (!library.startsWith('/'))
      throw new SetupError(`${runtime}, which must be preloaded, was not found in the compiler's libraries`);
    const finds = join(build, 'finds');
    for (const test of chosen) {
      rmSync(finds, { recursive: true, force: true });
      mkdirSync(finds, { recursive: true });
      say(`${kind}: ${test}`);
      const began = Date.now();
      // `env` sets LD_PRELOAD so that setarch itself does not load the runtime.
      const [command, ...args] = [...plainSpace, 'env', `LD_PRELOAD=${library}`, process.execPath, fileOf(test)];
      const { status, signal } = spawnSync(command, args, {
        cwd: root,
        stdio: ['ignore', 2, 2],
        timeout: kLimitMs,
        env: {
          ...process.env,
          MONOLITH_ADDON: addon,
          TAP_TIMEOUT: String(kLimitMs / 1000),
          ...options(join(finds, 'report')),
        },
      });
      // The tests do not print their servers' output, so this script prints the reports.
      const reports = readdirSync(finds).flatMap((one) => reportsIn(kind, readFileSync(join(finds, one), 'utf8')));
      for (const one of reports) process.stderr.write(`${one}\n`);
      const ended = reports.length > 0 ? `${reports.length} reports` : (signal ?? status);
      results.push({
        kind,
        test,
        ok: status === 0 && reports.length === 0,
        ended,
        seconds: ((Date.now() - began) / 1000).toFixed(1),
      });
    }
  }
  for (const { kind, test, ok, ended, seconds } of results)
    console.log(`${ok ? 'passed' : `FAILED (${ended})`}  ${kind}  ${test}  ${seconds} s`);
  const failed = results.filter(({ ok }) => !ok).length;
  console.log(`${results.length - failed} passed, ${failed} failed`);
  if (failed > 0 || results.length === 0) process.exitCode = 1;
});
