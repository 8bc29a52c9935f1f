// npm run test:sanitize [address | thread] [executable...]: builds the native tests twice, once with AddressSanitizer
// and UndefinedBehaviorSanitizer and once with ThreadSanitizer, and runs them.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { dropStaleBuild, missingTools, parallel, root, run, say, SetupError, sh, which } from './setup.mjs';

const kKinds = {
  address: {
    folder: 'asan',
    flags: 'address;undefined',
    env: { ASAN_OPTIONS: 'detect_leaks=1', UBSAN_OPTIONS: 'print_stacktrace=1' },
  },
  thread: { folder: 'tsan', flags: 'thread', env: { TSAN_OPTIONS: 'halt_on_error=1' } },
};
const kLimitMs = 900_000; // per executable: sanitizers typically make it ten times slower

const words = process.argv.slice(2);
const kinds = Object.keys(kKinds).filter((kind) => words.includes(kind));
const names = words.filter((word) => !(word in kKinds));

// Disable address-space randomization: newer kernels randomize more than older sanitizer runtimes support.
const plainSpace = which('setarch') ? ['setarch', '-R'] : [];

await run(async () => {
  const missing = missingTools();
  if (missing !== null) throw new SetupError(missing);
  const results = [];
  for (const kind of kinds.length > 0 ? kinds : Object.keys(kKinds)) {
    const { folder, flags, env } = kKinds[kind];
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
        '-DMONOLITH_TESTS=ON',
        `-DMONOLITH_SANITIZE=${flags}`,
      ],
      `configuring ${kind}`,
    );
    const all = names.length > 0 ? names : ['native_tests', 'native_tests_slow'];
    await sh('cmake', ['--build', build, '--parallel', String(parallel), '--target', ...all], `building ${kind}`);
    const executables = readdirSync(build)
      .filter((name) => name.startsWith('tests_') && (names.length === 0 || names.includes(name)))
      .sort();
    for (const name of executables) {
      say(`${kind}: ${name}`);
      const [command, ...args] = [...plainSpace, join(build, name)];
      const began = Date.now();
      const { status, signal } = spawnSync(command, args, {
        cwd: root,
        stdio: ['ignore', 2, 2],
        env: { ...process.env, ...env },
        timeout: kLimitMs,
      });
      results.push({
        kind,
        name,
        ok: status === 0,
        ended: signal ?? status,
        seconds: ((Date.now() - began) / 1000).toFixed(1),
      });
    }
  }
  for (const { kind, name, ok, ended, seconds } of results)
    console.log(`${ok ? 'passed' : `FAILED (${ended})`}  ${kind}  ${name}  ${seconds} s`);
  const failed = results.filter(({ ok }) => !ok).length;
  console.log(`${results.length - failed} passed, ${failed} failed`);
  if (failed > 0 || results.length === 0) process.exitCode = 1;
});
