// Runs the service simulation (docs/internals/simulation.md) for 2,000 steps with a fixed seed.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';

t.setTimeout(300_000);

const STEPS = '2000';

interface Outcome {
  status: number | null;
  output: string;
}

function simulate(...options: string[]): Outcome {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(packageRoot, 'build', 'test', 'simulation', 'service', 'main.js'), ...options],
    { encoding: 'utf8' },
  );
  return { status, output: `${stdout}${stderr}` };
}

const traceOf = ({ output }: Outcome): string | undefined => /^trace (\w+)$/m.exec(output)?.[1];

await t.test('every service invariant holds under random requests and faults', (t) => {
  for (const seed of ['1']) {
    const { status, output } = simulate('--steps', STEPS, '--seed', seed);
    t.equal(status, 0, `seed ${seed}: ${output}`);
    t.match(output, /[1-9]\d* admitted, [1-9]\d* refused, [1-9]\d* stored, .*[1-9]\d* background/);
  }
  t.end();
});

await t.test('the same seed gives the same trace in memory and in LMDB, and another seed a different one', (t) => {
  const [first, again, lmdb, other] = [['5'], ['5'], ['5', '--tables', 'lmdb'], ['6']].map(([seed = '', ...more]) =>
    traceOf(simulate('--steps', '800', '--seed', seed, ...more)),
  );
  t.type(first, 'string');
  t.equal(again, first);
  t.equal(lmdb, first);
  t.not(other, first);
  t.end();
});

await t.test('an injected fault is found, shrunk and printed with the options that reproduce it', (t) => {
  const seed = ['--seed', '3'];
  const faulty = [...seed, '--loses-writes'];
  const { status, output } = simulate('--steps', '4000', ...faulty);
  t.equal(status, 1);
  t.match(output, /^FAILED at step \d+ of part \d+: \w/m);
  const [, part = '', only = ''] = /--part (\d+) --only ([\d,]+)/m.exec(output) ?? [];
  t.ok(only.split(',').length <= 60, `the shrunk run has at most 60 of 400 actions: ${only}`);
  t.equal(simulate(...faulty, '--part', part, '--only', only).status, 1, 'the printed options reproduce the failure');
  t.equal(
    simulate(...seed, '--part', part, '--only', only).status,
    0,
    'the same actions pass without the injected fault',
  );
  t.end();
});
