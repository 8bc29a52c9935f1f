// Fuzzes one TypeScript target in this process: node scripts/fuzz/fuzz-node.mjs TARGET --seconds N [--core-seconds N]
// [--seed N] | --run FILE | --minimize. Started by scripts/fuzz.mjs. If an input fails, it is saved in build/fuzz/finds
// and the process exits with code 1.
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { register } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { parseArgs } from 'node:util';
import { root } from '../setup.mjs';
import { packFolder, packOf, unpackTo } from './corpus-pack.mjs';
import { Mutator } from './mutations.mjs';

const {
  values: { seconds, 'core-seconds': core, seed, run: file, minimize },
  positionals: [name],
} = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '60' },
    'core-seconds': { type: 'string' },
    seed: { type: 'string' },
    run: { type: 'string' },
    minimize: { type: 'boolean', default: false },
  },
});
const MAX_COUNTERS = 1 << 17,
  MAX_MS = 1_000,
  MAX_HANG_MS = 20_000,
  MAX_BYTES = 1 << 30,
  MAX_CORPUS_BYTES = 60_000;

globalThis.__fuzzCounters = new Uint8Array(MAX_COUNTERS);
globalThis.__fuzzWords = [];
register('./coverage.mjs', { parentURL: import.meta.url, data: { folder: join(root, 'dist') } });
const { targets } = await import(pathToFileURL(join(root, 'build', 'test', 'fuzz', 'targets.js')).href);
const target = targets[name];
const counters = globalThis.__fuzzCounters;

const finds = join(root, 'build', 'fuzz', 'finds'),
  working = join(root, 'build', 'fuzz', 'corpus', name),
  committed = join(root, 'build', 'fuzz', 'committed', name); // the unpacked test/fuzz/corpus/NAME.pack
mkdirSync(finds, { recursive: true });
mkdirSync(working, { recursive: true });
unpackTo(packOf(name), committed);
const hash = (input) => createHash('sha256').update(input).digest('hex').slice(0, 12);
const filesOf = (folder) => readdirSync(folder).map((one) => readFileSync(join(folder, one)));

// A watchdog thread: if an input hangs or uses too much memory, the watchdog saves it and kills the process.
const shared = new SharedArrayBuffer(8 + (1 << 17));
const state = new Int32Array(shared, 0, 2),
  held = new Uint8Array(shared, 8);
const watcher = new Worker(
  `
  const { workerData: { shared, finds, name, again, hang, bytes } } = require('node:worker_threads');
  const { writeFileSync } = require('node:fs');
  const state = new Int32Array(shared, 0, 2), held = new Uint8Array(shared, 8);
  let last = -1, since = 0;
  setInterval(() => {
    since = state[0] === last ? since + 500 : 0;
    last = state[0];
    const why = since > hang ? 'hangs' : process.memoryUsage().rss > bytes ? 'uses too much memory' : null;
    if (why === null || state[1] < 0) return;
    const path = finds + '/' + name + '-stuck';
    writeFileSync(path, held.slice(0, state[1]));
    process.stdout.write('FOUND: an input ' + why + '\\nagain: ' + again + path + '\\n', () => process.kill(process.pid, 'SIGKILL'));
  }, 500);
`,
  {
    eval: true,
    workerData: { shared, finds, name, again: `npm run fuzz -- ${name} --run `, hang: MAX_HANG_MS, bytes: MAX_BYTES },
  },
);
watcher.unref();

/** Returns why this input fails, or null if it passes. */
async function problem(input) {
  held.set(input.subarray(0, held.length));
  state[1] = Math.min(input.length, held.length);
  state[0]++;
  const before = process.cpuUsage();
  try {
    await target.run(new Uint8Array(input));
  } catch (error) {
    return error instanceof Error ? (error.stack ?? error.message) : String(error);
  }
  const { user, system } = process.cpuUsage(before);
  const ms = (user + system) / 1_000;
  return ms > MAX_MS ? `takes ${ms.toFixed(0)} ms of CPU time` : null;
}

async function judged(input) {
  const why = await problem(input);
  // One slow run may be due to a garbage collection, so an input fails only if it is slow twice.
  if (why === null || (why.startsWith('takes') && (await problem(input)) === null)) return;
  const path = join(finds, `${name}-${hash(input)}`);
  writeFileSync(path, input);
  console.log(`FOUND by ${name}: ${why}\nagain: npm run fuzz -- ${name} --run ${path}`);
  process.exit(1);
}

if (file !== undefined) {
  await judged(readFileSync(file));
  console.log(`${name}: no problem with ${file}`);
  process.exit(0);
}

const kClasses = Uint8Array.from({ length: 256 }, (_, n) =>
  n === 0 ? 0 : n < 3 ? n : n < 4 ? 4 : n < 8 ? 8 : n < 16 ? 16 : n < 32 ? 32 : n < 128 ? 64 : 128,
);
const seen = new Uint8Array(MAX_COUNTERS);
const words32 = new Uint32Array(counters.buffer);
/** Returns whether this run took a new branch or, with `counts`, took a known branch a new number of times. */
function isNew(counts) {
  let found = false;
  for (let word = 0; word < words32.length; word++) {
    if (words32[word] === 0) continue;
    for (let at = word * 4; at < word * 4 + 4; at++) {
      const bit = counts ? kClasses[counters[at]] : counters[at] > 0 ? 1 : 0;
      if (bit !== 0 && (seen[at] & bit) !== bit) {
        seen[at] |= bit;
        found = true;
      }
    }
  }
  return found;
}

const begin = [...target.seeds.map((one) => Buffer.from(one)), ...filesOf(committed), ...filesOf(working)];
if (minimize) {
  const kept = [];
  let bytes = 0;
  const seeds = new Set(target.seeds.map((one) => hash(Buffer.from(one))));
  for (const input of [
    ...begin.slice(0, target.seeds.length),
    ...begin.slice(target.seeds.length).sort((a, b) => a.length - b.length),
  ]) {
    counters.fill(0);
    await judged(input);
    if (isNew(false) && !seeds.has(hash(input)) && (bytes += input.length) < MAX_CORPUS_BYTES) kept.push(input);
  }
  const named = readdirSync(committed).filter((one) => !/^[0-9a-f]{12}$/.test(one)); // named inputs are kept
  const alike = new Set(named.map((one) => hash(readFileSync(join(committed, one)))));
  for (const one of readdirSync(committed)) if (!named.includes(one)) rmSync(join(committed, one));
  for (const input of kept) if (!alike.has(hash(input))) writeFileSync(join(committed, hash(input)), input);
  packFolder(committed, packOf(name));
  const files = filesOf(committed);
  console.log(
    `${name}: ${files.length} of ${begin.length} inputs kept (${named.length} by name), ${files.reduce((sum, { length }) => sum + length, 0)} bytes`,
  );
  process.exit(0);
}

let random = Number(seed ?? Date.now()) >>> 0;
const below = (n) => {
  random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((random / 2 ** 32) * n);
};
const corpus = [];
const mutator = new Mutator(below, [...new Set(globalThis.__fuzzWords)]);
const cpu = process.cpuUsage();
const ends = Date.now() + Number(seconds) * 1_000;
/** With --core-seconds, the limit is CPU time, which does not depend on the machine's load. */
function isOver() {
  if (core === undefined) return Date.now() >= ends;
  const { user, system } = process.cpuUsage(cpu);
  return (user + system) / 1e6 >= Number(core);
}
let runs = 0;
async function attempt(input) {
  counters.fill(0);
  await judged(input);
  runs++;
  if (!isNew(true)) return false;
  corpus.push(input);
  return true;
}
for (const input of begin) await attempt(input);
if (corpus.length === 0) corpus.push(...begin);
let told = Date.now();
while (!isOver()) {
  // Half of the time, prefer a recent input.
  const from = corpus[below(2) === 0 ? below(corpus.length) : Math.max(0, corpus.length - 1 - below(20))];
  const input = mutator.mutate(from, corpus[below(corpus.length)]);
  if (await attempt(input)) writeFileSync(join(working, hash(input)), input);
  if (Date.now() - told > 30_000) {
    told = Date.now();
    console.log(
      `${name}: ${runs} runs, ${corpus.length} inputs, ${seen.reduce((sum, one) => sum + (one > 0 ? 1 : 0), 0)} branches`,
    );
  }
}
const { user, system } = process.cpuUsage(cpu);
console.log(
  `${name}: ${runs} runs in ${((user + system) / 1e6).toFixed(0)} s of CPU time, ${corpus.length} inputs, ${seen.reduce((sum, one) => sum + (one > 0 ? 1 : 0), 0)} branches; nothing found`,
);
process.exit(0);
