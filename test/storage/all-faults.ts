// npm run faults [-- --kinds KIND,... --from N --to N --jobs N --seeds N]: injects every kind of fault at every write
// and sync of the database file. For killed processes and power losses, the resulting state is rebuilt from one
// recorded run (recorded.ts). Each failing call needs its own run; the runs continue until there are no further calls.
import { parseArgs } from 'node:util';
import { badOption } from '../support/bad-option.js';
import { FAULTS, runWithFault } from './faults.js';
import type { Fault } from './faults.js';
import { Recorded, wrongAfter } from './recorded.js';

const ENDS = ['kill', 'torn', 'power'] as const satisfies readonly Fault[];
/**
 * Faults that hit the first call of the matching kind at or after a position. All positions between two such calls are
 * therefore equivalent.
 */
const SEEK: readonly Fault[] = ['sync', 'meta'];

const { values } = parseArgs({
  options: {
    kinds: { type: 'string', default: FAULTS.join(',') },
    from: { type: 'string', default: '1' },
    to: { type: 'string', default: '1000000' },
    jobs: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '4' },
  },
});
const kinds = values.kinds.split(',').map((name): Fault => {
  const kind = FAULTS.find((fault) => fault === name);
  if (kind === undefined) throw badOption(`--kinds: ${name} is not one of ${FAULTS.join(', ')}`);
  return kind;
});
const [from, to, jobs, seeds] = (['from', 'to', 'jobs', 'seeds'] as const).map((name) => {
  const value = Number(values[name]);
  if (!Number.isSafeInteger(value) || value < 1) throw badOption(`--${name} must be an integer of at least 1`);
  return value;
}) as [number, number, number, number];

let failed = 0;
const tell = (fault: Fault, at: number, seed: number, problems: readonly string[]): void => {
  failed += problems.length;
  for (const problem of problems) process.stdout.write(`${fault} at call ${at}, seed ${seed}: ${problem}\n`);
};

/** The seeds determine the random state that a power loss leaves behind. */
async function ends(fault: (typeof ENDS)[number]): Promise<string> {
  const recorded = Recorded.make(fault === 'power');
  const last = Math.min(to, recorded.calls.length - 1);
  let states = 0;
  for (let call = from - 1; call <= last; call++) {
    const position = recorded.calls[call] as number;
    for (let seed = 1; seed <= (fault === 'power' ? seeds : 1); seed++) {
      tell(
        fault,
        call,
        seed,
        await wrongAfter(
          fault === 'kill'
            ? recorded.killed(position)
            : fault === 'torn'
              ? recorded.torn(position)
              : recorded.powerless(position, seed),
        ),
      );
      states++;
    }
  }
  return `${fault}, after calls ${from - 1} to ${last} of ${recorded.calls.length - 1}: ${states} file states checked`;
}

async function failures(fault: Fault): Promise<string> {
  const sum = { runs: 0, acknowledged: 0, refused: 0 };
  let last = to; // the last position to test
  let next = from;
  const worker = async (): Promise<void> => {
    while (next <= last) {
      const at = next++;
      const found = await runWithFault(fault, at);
      sum.runs++;
      sum.acknowledged += found.acknowledged;
      sum.refused += found.refused;
      tell(fault, at, 1, found.problems);
      if (!found.met && found.problems.length === 0) last = Math.min(last, at);
      if (SEEK.includes(fault) && found.met) next = Math.max(next, found.call + 1);
    }
  };
  await Promise.all(Array.from({ length: SEEK.includes(fault) ? 1 : jobs }, worker));
  return `${fault}, calls ${from} to ${last}: ${sum.runs} runs, ${sum.acknowledged} acknowledged, ${sum.refused} refused`;
}

for (const fault of kinds) {
  const end = ENDS.find((one) => one === fault);
  process.stdout.write(`${end === undefined ? await failures(fault) : await ends(end)}\n`);
}
process.stdout.write(failed === 0 ? 'no acknowledged data was lost\n' : `${failed} problems\n`);
process.exitCode = failed > 0 ? 1 : 0;
