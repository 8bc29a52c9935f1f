// npm run fuzz -- --list | TARGET [--seconds N] [--core-seconds N] [--seed N] [--run FILE] [--minimize] [--postgres]
// [--no-build]: fuzzes one target until the time is up or an input fails. npm run fuzz -- --all [--core-hours N]
// [--seconds N] [--seed N] [--jobs N]: fuzzes every target in turn (scripts/fuzz/all.mjs).
//
// The engine's targets use libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer, built in build/fuzz with
// clang and its runtime (Debian's libclang-rt-14-dev). The TypeScript targets run in Node (scripts/fuzz). `server` and
// `dashboard` send requests over HTTP. See docs/internals/fuzzing.md.
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  copyFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { fuzzAll } from './fuzz/all.mjs';
import { packFolder, packOf, unpackTo } from './fuzz/corpus-pack.mjs';
import {
  buildNative as buildAddon,
  buildTypeScript,
  ensurePackages,
  parallel,
  root,
  run,
  SetupError,
  sh,
  which,
} from './setup.mjs';

const MAX_CORPUS_BYTES = 60_000;
const WHOLE = {
  server: 'the whole server, over HTTP',
  dashboard: 'its dashboard and operator APIs, with signed-in users',
};
const build = join(root, 'build', 'fuzz');
const to = (part) => join(build, part);
const sources = join(root, 'test', 'native', 'fuzz');
const native = Object.fromEntries(
  readdirSync(sources, { withFileTypes: true })
    .filter((one) => one.isDirectory())
    .flatMap(({ name: room }) =>
      readdirSync(join(sources, room))
        .filter((file) => file.endsWith('.cc'))
        .map((file) => [basename(file, '.cc'), room]),
    ),
);

await run(async () => {
  const {
    values,
    positionals: [name],
  } = parseArgs({
    allowPositionals: true,
    options: {
      all: { type: 'boolean', default: false },
      'core-hours': { type: 'string', default: '1' },
      jobs: { type: 'string', default: '1' },
      'no-build': { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      seconds: { type: 'string', default: '60' },
      'core-seconds': { type: 'string' },
      seed: { type: 'string' },
      run: { type: 'string' },
      minimize: { type: 'boolean', default: false },
      postgres: { type: 'boolean', default: false },
    },
  });
  for (const number of ['seconds', 'core-seconds', 'core-hours', 'jobs', 'seed'])
    if (values[number] !== undefined && !(Number(values[number]) >= 0))
      throw new SetupError(`--${number} must be a number.`);
  ensurePackages();
  const whole = Object.hasOwn(WHOLE, name ?? '');
  if (values.postgres && !whole)
    throw new SetupError(`--postgres applies only to ${Object.keys(WHOLE).join(' and ')}.`);
  if (name !== undefined && name in native && !values.list) {
    if (values['core-seconds'] !== undefined)
      throw new SetupError(
        '--core-seconds applies only to TypeScript targets; libFuzzer uses --seconds of wall-clock time.',
      );
    return fuzzNative(name, values);
  }
  if (!values['no-build']) await buildTypeScript({ tests: true });
  if (whole) {
    if (values['core-seconds'] !== undefined || values.minimize)
      throw new SetupError(
        `The target ${name} accepts --seconds (wall-clock time), --seed and --run; it has no corpus to minimize.`,
      );
    if (!values['no-build']) await buildAddon();
    return inNode(`${name}.mjs`);
  }
  const { targets } = await import(join(root, 'build', 'test', 'fuzz', 'targets.js'));
  if (values.all) {
    await buildNative(Object.keys(native));
    return fuzzAll(
      [
        ...Object.keys(native).map((one) => ({ name: one, native: true })),
        ...Object.keys(targets).map((one) => ({ name: one, native: false })),
      ],
      {
        seconds: Number(values.seconds),
        coreHours: Number(values['core-hours']),
        jobs: Number(values.jobs),
        seed: Number(values.seed ?? Date.now() % 1_000_000),
      },
    );
  }
  if (values.list || name === undefined) {
    for (const one of Object.keys(native).sort()) console.log(`${one.padEnd(16)}engine (${native[one]})`);
    for (const one of Object.keys(targets).sort()) console.log(`${one.padEnd(16)}TypeScript`);
    for (const [one, what] of Object.entries(WHOLE)) console.log(`${one.padEnd(16)}${what}`);
    return;
  }
  if (!(name in targets)) throw new SetupError(`Unknown fuzz target ${name}; --list prints the targets.`);
  inNode('fuzz-node.mjs');
});

function inNode(script) {
  const args = process.argv.slice(2).filter((one) => one !== '--no-build');
  const { status } = spawnSync(
    process.execPath,
    ['--max-old-space-size=768', join(root, 'scripts', 'fuzz', script), ...args],
    { stdio: 'inherit', cwd: root },
  );
  process.exitCode = status ?? 1;
}

/** Builds the executables for these targets, and the seed generator for targets without handwritten inputs. */
async function buildNative(names) {
  if (!which('clang++'))
    throw new SetupError("The engine's fuzz targets need clang and its runtime (Debian: clang, libclang-rt-14-dev).");
  if (!existsSync(to('CMakeCache.txt'))) {
    await sh(
      'cmake',
      [
        '-S',
        'native',
        '-B',
        build,
        '-G',
        which('ninja') ? 'Ninja' : 'Unix Makefiles',
        '-DCMAKE_CXX_COMPILER=clang++',
        '-DCMAKE_BUILD_TYPE=RelWithDebInfo',
        '-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -gline-tables-only',
        '-DMONOLITH_QUICK=ON',
        '-DMONOLITH_FUZZ=ON',
        '-DMONOLITH_CUDA=OFF',
        '-DMONOLITH_SANITIZE=address;undefined',
      ],
      'configuring the fuzzers',
    );
  }
  const seeded = names.some((name) => ['model', 'tokenizer', 'vision'].includes(name));
  await sh(
    'cmake',
    [
      '--build',
      build,
      '--parallel',
      String(parallel),
      '--target',
      ...names.map((name) => `fuzz_${name}`),
      ...(seeded ? ['fuzz_seeds'] : []),
    ],
    `building fuzz_${names.join(', fuzz_')}`,
  );
  if (seeded) spawnSync(to('fuzz_seeds'), [to('seeds')]);
}

async function fuzzNative(name, { seconds, seed, run: file, minimize, 'no-build': built }) {
  if (!built) await buildNative([name]);
  const committed = to(join('committed', name)), // the unpacked test/fuzz/corpus/NAME.pack
    working = to(join('corpus', name)),
    finds = to('finds');
  for (const folder of [working, finds]) mkdirSync(folder, { recursive: true });
  unpackTo(packOf(name), committed);
  const env = { ...process.env, UBSAN_OPTIONS: 'print_stacktrace=1' };
  const fuzzer = (args) => spawnSync(to(`fuzz_${name}`), args, { stdio: 'inherit', cwd: root, env }).status ?? 1;
  if (file !== undefined) {
    process.exitCode = fuzzer([file]);
    return;
  }
  const seeds = existsSync(to(join('seeds', name))) ? [to(join('seeds', name))] : [];
  if (minimize) {
    const merged = to(join('merged', name));
    rmSync(merged, { recursive: true, force: true });
    mkdirSync(merged, { recursive: true });
    // Inputs are merged by branches only. With hit counts, the corpus would be many times larger.
    if (fuzzer(['-merge=1', '-use_counters=0', merged, committed, working, ...seeds]) !== 0)
      throw new SetupError('The corpora could not be merged.');
    let bytes = 0;
    const kept = new Set(readdirSync(committed).filter((one) => !/^[0-9a-f]{40}$/.test(one))); // named inputs are kept
    for (const one of kept) bytes += statSync(join(committed, one)).size;
    const chosen = readdirSync(merged)
      .map((one) => ({ one, size: statSync(join(merged, one)).size }))
      .sort((a, b) => a.size - b.size);
    for (const one of readdirSync(committed)) if (!kept.has(one)) rmSync(join(committed, one));
    for (const { one, size } of chosen)
      if ((bytes += size) < MAX_CORPUS_BYTES) copyFileSync(join(merged, one), join(committed, one));
    packFolder(committed, packOf(name));
    console.log(`${name}: ${readdirSync(committed).length} inputs`);
    return;
  }
  // The dictionary holds the literals that the code under test compares its input with.
  const words = new Set();
  for (const folder of {
    gguf: ['formats/gguf'],
    text: ['text'],
    hf: ['formats/hf'],
    model: ['model'],
    vision: ['vision'],
  }[native[name]]) {
    for (const path of readdirSync(join(root, 'native', folder), { recursive: true })) {
      if (!path.endsWith('.cc')) continue;
      for (const [, word] of readFileSync(join(root, 'native', folder, path), 'utf8').matchAll(
        /"([A-Za-z0-9_.$<>|{}[\]()^:=-]{2,40})"/g,
      ))
        words.add(word);
    }
  }
  const dictionary = to(`${name}.dict`);
  writeFileSync(dictionary, [...words].map((word) => `"${word}"\n`).join(''));
  env.MONOLITH_FUZZ_WORDS = dictionary;
  const status = fuzzer([
    `-max_total_time=${seconds}`,
    ...(seed === undefined ? [] : [`-seed=${seed}`]),
    '-rss_limit_mb=2048',
    '-malloc_limit_mb=512',
    '-timeout=60',
    '-max_len=16384',
    '-len_control=0',
    '-print_final_stats=1',
    `-dict=${dictionary}`,
    `-artifact_prefix=${finds}/${name}-`,
    working,
    committed,
    ...seeds,
  ]);
  if (status !== 0) {
    const newest = readdirSync(finds)
      .filter((one) => one.startsWith(`${name}-`))
      .sort((a, b) => statSync(join(finds, b)).mtimeMs - statSync(join(finds, a)).mtimeMs)[0];
    if (newest !== undefined) console.log(`again: npm run fuzz -- ${name} --run ${join(finds, newest)}`);
  }
  process.exitCode = status;
}
