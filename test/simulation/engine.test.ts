// Runs the engine simulation (docs/internals/simulation.md): 50,000 steps with a fixed seed, and as many with a random
// seed. engine.slow.ts runs half a million of each.
import { spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';

t.setTimeout(600_000);

const STEPS = 50_000;

interface Outcome {
  status: number | null;
  output: string;
}

function simulate(...options: string[]): Outcome {
  const { status, stdout, stderr } = spawnSync(join(packageRoot, 'build', 'native', 'simulate_engine'), options, {
    encoding: 'utf8',
  });
  return { status, output: `${stdout}${stderr}` };
}

const traceOf = ({ output }: Outcome): string | undefined => /^trace (\w+)$/m.exec(output)?.[1];

await t.test('every engine invariant holds under random requests and faults', (t) => {
  for (const seed of ['1', String(randomInt(2 ** 40))]) {
    const { status, output } = simulate('--steps', String(STEPS), '--seed', seed);
    t.equal(status, 0, `seed ${seed}: ${output}`);
    t.match(output, /preemptions, .* draft tokens/);
  }
  t.end();
});

await t.test('the same seed gives the same trace, and another seed a different one', (t) => {
  // This seed once crashed: the list of preempted sequences was reallocated while it was read.
  const seed = '648504160935';
  const [first, again, other] = [seed, seed, '6'].map((one) => traceOf(simulate('--steps', '20000', '--seed', one)));
  t.type(first, 'string');
  t.equal(again, first);
  t.not(other, first);
  t.end();
});

await t.test('an injected fault is found, shrunk and printed with the options that reproduce it', (t) => {
  const { status, output } = simulate('--loses-copies', '--seed', '1');
  t.equal(status, 1);
  t.match(output, /^FAILED at step \d+ of part \d+: \w/m);
  const [, part = '', only = ''] = /--part (\d+) --only ([\d,]+)$/m.exec(output) ?? [];
  t.ok(only.split(',').length <= 10, `the shrunk run has at most 10 actions: ${only}`);
  t.equal(
    simulate('--loses-copies', '--seed', '1', '--part', part, '--only', only).status,
    1,
    'the printed options reproduce the failure',
  );
  t.equal(
    simulate('--seed', '1', '--part', part, '--only', only).status,
    0,
    'the same actions pass without the injected fault',
  );
  t.end();
});
