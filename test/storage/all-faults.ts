// npm run faults [-- --kinds KIND,... --from N --to N --jobs N]: a fault of every kind at every write and sync of the store's
// file, one run of its own for each. The last call of all is found by coming to none.
import { parseArgs } from 'node:util';
import { FAULTS, runWithFault } from './faults.js';
import type { Fault } from './faults.js';

const SEEDS_OF_POWER = 4;
/** Those that fail at the first call of their sort from a place on: the places between two of them are one. */
const SEEK: readonly Fault[] = ['sync', 'meta'];

const { values } = parseArgs({
  options: { kinds: { type: 'string', default: FAULTS.join(',') }, from: { type: 'string', default: '1' }, to: { type: 'string', default: '1000000' }, jobs: { type: 'string', default: '1' } },
});
const kinds = values.kinds.split(',').map((name): Fault => {
  const kind = FAULTS.find((fault) => fault === name);
  if (kind === undefined) throw new Error(`--kinds: ${name} is none of ${FAULTS.join(', ')}`);
  return kind;
});
const [from, to, jobs] = (['from', 'to', 'jobs'] as const).map((name) => {
  const value = Number(values[name]);
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`--${name} must be a whole number from 1`);
  return value;
}) as [number, number, number];

let failed = 0;
for (const fault of kinds) {
  const sum = { runs: 0, acknowledged: 0, refused: 0 };
  let last = to;                                 // the last place that is looked at
  let next = from;
  const one = async (at: number, seed: number): Promise<number> => {
    const found = await runWithFault(fault, at, seed);
    sum.runs++;
    sum.acknowledged += found.acknowledged;
    sum.refused += found.refused;
    for (const problem of found.problems) {
      failed++;
      process.stdout.write(`${fault} at call ${at}, seed ${seed}: ${problem}\n`);
    }
    if (!found.met) last = Math.min(last, at);
    return found.call;
  };
  const worker = async (): Promise<void> => {
    while (next <= last) {
      const at = next++;
      for (let seed = 1; seed <= (fault === 'power' ? SEEDS_OF_POWER : 1) && at <= last; seed++) {
        const call = await one(at, seed);
        if (SEEK.includes(fault) && call > 0) next = Math.max(next, call + 1);
      }
    }
  };
  await Promise.all(Array.from({ length: SEEK.includes(fault) ? 1 : jobs }, worker));
  process.stdout.write(`${fault}, calls ${from} to ${last}: ${sum.runs} runs, ${sum.acknowledged} acknowledged, ${sum.refused} refused\n`);
}
process.stdout.write(failed === 0 ? 'nothing was lost\n' : `${failed} problems\n`);
process.exitCode = failed > 0 ? 1 : 0;
