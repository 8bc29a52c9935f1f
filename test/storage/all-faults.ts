// npm run faults: a fault of every kind at every write and sync of the store's file, one run of its own for each.
import { FAULTS, runWithFault } from './faults.js';
import type { Found } from './faults.js';

const SEEDS_OF_POWER = 4;

let failed = 0;
for (const fault of FAULTS) {
  let runs = 0;
  let acknowledged = 0;
  let refused = 0;
  for (let at = 1; ; at++) {
    let last: Found | null = null;
    for (let seed = 1; seed <= (fault === 'power' ? SEEDS_OF_POWER : 1); seed++) {
      last = await runWithFault(fault, at, seed);
      runs++;
      acknowledged += last.acknowledged;
      refused += last.refused;
      for (const problem of last.problems) {
        failed++;
        process.stdout.write(`${fault} at call ${at}, seed ${seed}: ${problem}\n`);
      }
    }
    if (last?.met !== true) break;
  }
  process.stdout.write(`${fault}: ${runs} runs, ${acknowledged} acknowledged, ${refused} refused\n`);
}
process.exitCode = failed > 0 ? 1 : 0;
