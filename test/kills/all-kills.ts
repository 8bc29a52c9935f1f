// npm run kills [-- --rounds N --seed N --first N --ready-ms N]: see rounds.ts. Prints the failing rounds and the
// command that repeats them.
import { parseArgs } from 'node:util';
import { badOption } from '../support/bad-option.js';
import { killRounds } from './rounds.js';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '100' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    first: { type: 'string', default: '0' },
    'ready-ms': { type: 'string', default: '30000' },
    main: { type: 'string' },
  },
});
const whole = (name: keyof typeof values, least: number): number => {
  const value = Number(values[name]);
  if (!Number.isSafeInteger(value) || value < least)
    throw badOption(`--${name} must be an integer of at least ${least}`);
  return value;
};
const say = (text: string): void => {
  process.stdout.write(`${text}\n`);
};
const seed = whole('seed', 0);
say(`seed ${seed}`);
const { rounds, failures, readyMs } = await killRounds({
  rounds: whole('rounds', 1),
  seed,
  first: whole('first', 0),
  readyWithinMs: whole('ready-ms', 1),
  say,
  ...(values.main === undefined ? {} : { main: values.main }),
});
const sorted = readyMs.toSorted((a, b) => a - b);
say(
  `${rounds} rounds, ${failures.length} failures; time until ready: median ${Math.round(sorted[sorted.length >> 1]!)} ms, maximum ${Math.round(sorted.at(-1)!)} ms`,
);
process.exitCode = failures.length > 0 || rounds === 0 ? 1 : 0;
