// npm run faults:processes -- [--rounds N] [--seed N]: see scripts/faults-processes.mjs.
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { badOption } from '../support/bad-option.js';
import { runRounds } from './rounds.js';

const text = { type: 'string' } as const;
const { values } = parseArgs({ options: { rounds: text, seed: text, file: text } });
const [rounds, seed] = [Number(values.rounds ?? 100), Number(values.seed ?? Date.now() % 1_000_000)];
if (!Number.isSafeInteger(rounds) || rounds < 1 || !Number.isSafeInteger(seed))
  throw badOption('--rounds and --seed must be integers');
const file = resolve(values.file ?? `build/rounds-${seed}.jsonl`);
process.stdout.write(`seed ${seed}\n`);
const { problems, operations } = await runRounds({
  rounds,
  seed,
  abandoned: true,
  file,
  tell: (line) => process.stdout.write(`${line}\n`),
});
process.stdout.write(`${JSON.stringify(operations)}\n`);
for (const problem of problems) process.stdout.write(`${problem}\n`);
process.stdout.write(
  problems.length === 0
    ? `${rounds} rounds of seed ${seed}: no problems found\n`
    : `${problems.length} problems with seed ${seed}: the history is in ${file}\n`,
);
process.exit(problems.length === 0 ? 0 : 1);
