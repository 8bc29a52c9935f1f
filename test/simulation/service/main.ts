// The service half of npm run simulate: --steps N --seed N runs parts of that seed until N steps have been done. A
// failure is shrunk by running it again with fewer and fewer actions, and printed with the command that reproduces it;
// the exit code is then 1. See docs/internals/simulation.md.
//
// --part N          run only this part of the seed
// --only N,N,...    run only these actions of the part
// --without K,K,... run no actions of these kinds
// --tables lmdb     use LMDB tables in a temporary directory instead of tables in memory
// --seconds N       stop after N seconds
// --no-shrink       print a failure without shrinking it
// --loses-writes    acknowledge one write in 50 without doing it: a fault that must be found
import { tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import { base62 } from '../../../src/shared/ids.js';
import { drawsFrom, seedOf } from '../../../src/shared/random.js';
import { MemoryTables } from './memory-tables.js';
import { openLmdb } from './sim-disk.js';
import { SimTime } from './sim-time.js';
import { ALL_KINDS, newTrace, World, type Figures, type Kind } from './world.js';

const PART_STEPS = 400;
const MAX_RUNS = 300;

const { values } = parseArgs({
  options: {
    steps: { type: 'string', default: '100000' },
    seed: { type: 'string', default: '1' },
    part: { type: 'string' },
    only: { type: 'string' },
    without: { type: 'string' },
    'no-shrink': { type: 'boolean', default: false },
    tables: { type: 'string', default: 'memory' },
    seconds: { type: 'string' },
    quiet: { type: 'boolean', default: false },
    'loses-writes': { type: 'boolean', default: false },
  },
});

const time = new SimTime();
const began = process.hrtime.bigint();
const elapsed = (now: bigint): number => Number(now - began) / 1e9;
const realNow = process.hrtime.bigint.bind(process.hrtime);
let bytes = drawsFrom(0);
let fills = 0;
time.install((into) => {
  fills++;
  for (let at = 0; at < into.length; at++) into[at] = bytes.below(256);
});

interface Outcome {
  failure: string | null;
  figures: Figures;
  steps: number;
}

/** Selects which of a part's actions run. */
interface Choice {
  readonly only: ReadonlySet<number> | null;
  readonly without: ReadonlySet<Kind>;
}

async function runPart(
  seed: number,
  part: number,
  { only, without }: Choice,
  trace = newTrace(),
  kinds = new Map<number, Kind>(),
): Promise<Outcome> {
  bytes = drawsFrom(seedOf(seed, part, 3));
  // Discard the random characters that the previous part left in the buffer.
  for (const before = fills; fills === before; ) base62(1);
  time.begin(Date.UTC(2026, 0, 1) + drawsFrom(seedOf(seed, part, 4)).below(365 * 86_400) * 1000);
  const backing = values.tables === 'lmdb' ? await openLmdb(time, tmpdir()) : new MemoryTables();
  const world = new World(time, backing, { seed, part }, trace, values['loses-writes'] ? 0.02 : 0);
  try {
    await world.run(PART_STEPS, (step, kind) => {
      if ((only !== null && !only.has(step)) || without.has(kind)) return false;
      kinds.set(step, kind);
      return true;
    });
    return { failure: null, figures: world.figures, steps: kinds.size };
  } catch (error) {
    return {
      failure:
        error instanceof Error && error.constructor.name === 'Violation'
          ? error.message
          : String((error as Error).stack),
      figures: world.figures,
      steps: kinds.size,
    };
  } finally {
    await time.settle();
    await backing.close();
  }
}

/** Returns the part of a failure message that is the same each time the failure occurs: without ids and numbers. */
const classOf = (failure: string): string => failure.replace(/[a-z]+_\w+|\d+/g, '').slice(0, 40);

/**
 * Removes actions (delta debugging, from the end), then kinds of actions, for as long as the run still fails in the
 * same way.
 */
async function shrink(
  seed: number,
  part: number,
  begun: Choice,
  steps: number,
  first: string,
): Promise<{ choice: Choice; failure: string; kinds: string }> {
  let kept = [...(begun.only ?? Array.from({ length: steps }, (_, step) => step))];
  let failure = first;
  let runs = 0;
  const fails = async (only: readonly number[], without: ReadonlySet<Kind> = begun.without): Promise<boolean> => {
    runs++;
    const outcome = await runPart(seed, part, { only: new Set(only), without });
    if (outcome.failure === null || classOf(outcome.failure) !== classOf(first)) return false;
    ({ failure } = outcome);
    return true;
  };
  for (let length = Math.max(1, kept.length >> 1); runs < MAX_RUNS; ) {
    let shorter = false;
    for (let end = kept.length; end > 0 && runs < MAX_RUNS; ) {
      const begin = Math.max(0, end - length);
      const left = [...kept.slice(0, begin), ...kept.slice(end)];
      if (await fails(left)) {
        kept = left;
        shorter = true;
      }
      end = begin;
    }
    if (length > 1) length >>= 1;
    else if (!shorter) break;
  }
  const without = new Set(begun.without);
  for (const kind of ALL_KINDS) if (await fails(kept, new Set([...without, kind]))) without.add(kind);
  const kinds = new Map<number, Kind>();
  await runPart(seed, part, { only: new Set(kept), without }, undefined, kinds);
  kept = kept.filter((step) => kinds.has(step));
  return {
    choice: { only: new Set(kept), without: begun.without },
    failure,
    kinds: kept.map((step) => kinds.get(step)).join(', '),
  };
}

const numbers = (list: string): number[] => list.split(',').map(Number);

async function run(): Promise<number> {
  const seed = Number(values.seed),
    wanted = Number(values.steps),
    seconds = Number(values.seconds ?? Infinity);
  const choice: Choice = {
    only: values.only === undefined ? null : new Set(numbers(values.only)),
    without: new Set((values.without ?? '').split(',').filter((kind) => kind !== '') as Kind[]),
  };
  const sum = new Map<string, number>();
  const trace = newTrace();
  let steps = 0;
  for (let part = Number(values.part ?? 0); steps < wanted && elapsed(realNow()) < seconds; part++) {
    const outcome = await runPart(seed, part, choice, trace);
    steps += outcome.steps;
    for (const [name, count] of Object.entries(outcome.figures))
      sum.set(name, (sum.get(name) ?? 0) + (count as number));
    if (outcome.failure !== null) {
      console.log(`FAILED at step ${outcome.steps} of part ${part}: ${outcome.failure}`);
      if (values['no-shrink']) return 1;
      const smallest = await shrink(seed, part, choice, PART_STEPS, outcome.failure);
      console.log(`shrunk to (${smallest.kinds}): ${smallest.failure}`);
      const without = [...smallest.choice.without];
      console.log(
        `again: npm run simulate -- --half service --seed ${seed} --part ${part} --only ${[...(smallest.choice.only ?? [])].join(',')}${without.length === 0 ? '' : ` --without ${without.join(',')}`}`,
      );
      return 1;
    }
    if (values.part !== undefined) break;
  }
  if (!values.quiet) console.log([...sum].map(([name, count]) => `${count} ${name}`).join(', '));
  console.log(`trace ${trace.digest('hex').slice(0, 16)}`);
  return 0;
}

process.on('unhandledRejection', (error) => {
  console.log(`FAILED: unhandled rejection: ${String((error as Error).stack)}`);
  process.exit(1);
});
process.exit(await run());
