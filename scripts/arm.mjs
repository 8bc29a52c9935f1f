// npm run test:arm [executable...]: cross-compiles the native tests for 64-bit ARM and runs them under QEMU. Every
// executable runs on an emulated processor with all extensions. Some backend tests also run on a processor without the
// int8 matrix-multiply instructions, and on a processor that also lacks the dot-product instructions and must use the
// portable kernels. Emulation checks results, not speed.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { dropStaleBuild, missingTools, parallel, root, run, say, SetupError, sh, which } from './setup.mjs';

const kCompiler = 'aarch64-linux-gnu-g++';
const kEmulator = ['qemu-aarch64-static', 'qemu-aarch64'].find((name) => which(name));
// Time limit per executable. Emulation is about thirty times slower, and there may be many golden files.
const kLimitMs = 3_600_000;

// The instruction set that the engine must detect on each emulated processor.
const kBest = { max: 'neon_i8mm', 'cortex-a76': 'neon', 'cortex-a72': 'plain' };

// The executables to run on each processor, each with test name filters; [''] runs all tests. Of tests_model, only the
// tests that cover something no other test covers are run. Of tests_engine, only a few tests are run: its tests wait at
// most 20 seconds for the engine, which is too short for most of them under emulation.
const kRuns = [
  { cpu: 'max', name: 'tests_base', filters: [''] },
  { cpu: 'max', name: 'tests_gguf', filters: [''] },
  { cpu: 'max', name: 'tests_text', filters: [''] },
  { cpu: 'max', name: 'tests_backend', filters: [''] },
  {
    cpu: 'max',
    name: 'tests_model',
    filters: ['production_arithmetic', 'observed_residuals', 'every_type_matches', 'damaged_images'],
  },
  {
    cpu: 'max',
    name: 'tests_engine',
    filters: ['sampler_kernels', 'sampler_equals', 'sampler_draws', 'sampler_chooses', 'batch_invariance_tool_calls'],
  },
  { cpu: 'cortex-a76', name: 'tests_backend', filters: ['isa_', 'backend_', 'quantize_'] },
  { cpu: 'cortex-a72', name: 'tests_backend', filters: ['isa_', 'backend_', 'quantize_'] },
];

/** Returns a sentence that names the missing tools, or null if there are none. */
function missing() {
  const tools = missingTools();
  if (tools !== null) return tools;
  const packages = [...(which(kCompiler) ? [] : ['g++-aarch64-linux-gnu']), ...(kEmulator ? [] : ['qemu-user-static'])];
  if (packages.length === 0) return null;
  return (
    `testing for ARM needs a cross compiler (${kCompiler}) and an emulator (qemu-aarch64-static). ` +
    `On Debian or Ubuntu: sudo apt-get install ${packages.join(' ')}`
  );
}

const names = process.argv.slice(2);

await run(async () => {
  const problem = missing();
  if (problem !== null) throw new SetupError(problem);
  const runs = kRuns.filter(({ name }) => names.length === 0 || names.includes(name));
  const unknown = names.find((name) => !kRuns.some((one) => one.name === name));
  if (unknown !== undefined)
    throw new SetupError(
      `test:arm: unknown executable "${unknown}"; expected one of ${[...new Set(kRuns.map(({ name }) => name))].join(', ')}`,
    );

  const build = join(root, 'build', 'arm64');
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
      `-DCMAKE_TOOLCHAIN_FILE=${join(root, 'native', 'cmake', 'aarch64-linux-gnu.cmake')}`,
      '-DMONOLITH_TESTS=ON',
    ],
    'configuring for ARM',
  );
  await sh(
    'cmake',
    ['--build', build, '--parallel', String(parallel), '--target', ...new Set(runs.map(({ name }) => name))],
    'building for ARM',
  );

  const results = [];
  for (const { cpu, name, filters } of runs) {
    for (const filter of filters) {
      const what = [cpu, name, filter].join(' ').trimEnd();
      say(what);
      const began = Date.now();
      // The executables run in the build directory, because some compilers embed paths relative to it.
      const { status, signal } = spawnSync(
        kEmulator,
        ['-cpu', cpu, join(build, name), ...(filter === '' ? [] : [filter])],
        {
          cwd: build,
          stdio: ['ignore', 2, 2],
          env: { ...process.env, MONOLITH_TEST_ISA: kBest[cpu] },
          timeout: kLimitMs,
        },
      );
      results.push({
        what,
        ok: status === 0,
        ended: signal ?? status,
        seconds: ((Date.now() - began) / 1000).toFixed(1),
      });
    }
  }
  for (const { what, ok, ended, seconds } of results)
    console.log(`${ok ? 'passed' : `FAILED (${ended})`}  ${what}  ${seconds} s`);
  const failed = results.filter(({ ok }) => !ok).length;
  console.log(`${results.length - failed} passed, ${failed} failed`);
  if (failed > 0) process.exitCode = 1;
});
