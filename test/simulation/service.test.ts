// The simulated service (docs/internals/simulation.md): steps of one seed.
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

await t.test('all that must be true of the service is, whatever is done to it', (t) => {
  for (const seed of ['1']) {
    const { status, output } = simulate('--steps', STEPS, '--seed', seed);
    t.equal(status, 0, `seed ${seed}: ${output}`);
    t.match(output, /[1-9]\d* admitted, [1-9]\d* refused, [1-9]\d* stored, .*[1-9]\d* background/);
  }
  t.end();
});

await t.test('the same seed does the same, in memory and in LMDB; another one something else', (t) => {
  const [first, again, lmdb, other] = [['5'], ['5'], ['5', '--tables', 'lmdb'], ['6']].map(([seed = '', ...more]) =>
    traceOf(simulate('--steps', '800', '--seed', seed, ...more)),
  );
  t.type(first, 'string');
  t.equal(again, first);
  t.equal(lmdb, first);
  t.not(other, first);
  t.end();
});

await t.test('a fault is found, made smaller and printed with what shows it again', (t) => {
  const seed = ['--seed', '3'];
  const faulty = [...seed, '--loses-writes'];
  const { status, output } = simulate('--steps', '4000', ...faulty);
  t.equal(status, 1);
  t.match(output, /^FAILED at step \d+ of part \d+: \w/m);
  const [, part = '', only = ''] = /--part (\d+) --only ([\d,]+)/m.exec(output) ?? [];
  t.ok(only.split(',').length <= 60, `it takes less than all 400: ${only}`);
  t.equal(simulate(...faulty, '--part', part, '--only', only).status, 1, 'which fails again');
  t.equal(simulate(...seed, '--part', part, '--only', only).status, 0, 'and does not without the fault');
  t.end();
});
