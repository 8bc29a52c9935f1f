import t from 'tap';
import { leastDisturbed } from '../../bench/lib/disturbance.js';
import { sharesOf } from '../../bench/lib/engine-report.js';
import { barChart, lineChart } from '../../bench/lib/svg.js';

t.test('each share of a step is compared with the roofline that bounds it', async (t) => {
  const costs = {
    seconds: 1e-3,
    steps: 1,
    operations: [
      { name: 'attention', calls: 1, nanoseconds: 200_000, bytes: 1_000_000, operations: 1e6 },
      { name: 'matmul 64 x 64', calls: 1, nanoseconds: 600_000, bytes: 1_000_000, operations: 6e8 },
    ],
  };
  const rooflines = { bytes: 10e9, integer8: 2e12, float32: 1e11 };
  const shares = sharesOf(costs, 'Q8_0', rooflines);
  t.same(
    shares.map(({ name, bound }) => [name, bound]),
    [
      ['matmul 64 x 64', 'arithmetic'],
      ['attention', 'memory'],
      ['outside the forward pass', 'none'],
    ],
  );
  t.same(
    shares.map(({ share }) => Math.round(share * 100)),
    [60, 20, 20],
  );
  t.same(
    shares.map(({ ofRoofline }) => Math.round(ofRoofline * 100)),
    [50, 50, 0],
  );
  t.equal(
    sharesOf(costs, 'F16', rooflines)[0]?.ofRoofline,
    10,
    'floating-point operations are compared with the floating-point peak',
  );
});

t.test('a disturbed run is repeated, and the least disturbed one counts', async (t) => {
  const lacking = [0.5, 0.2, 0.3, 0];
  let runs = 0;
  const work = async () => ++runs;
  const { value } = await leastDisturbed(3, 0, work, async () => lacking[runs - 1] ?? 0);
  t.equal(runs <= 3 && value >= 1, true);
  const whole = await leastDisturbed(1, 1, work, async () => 0.7);
  t.ok(whole.foreignShare >= 0.7, 'missing CPU time counts as disturbance');
});

t.test('charts are well-formed and escape markup in names', async (t) => {
  const line = lineChart({
    title: 'a < b',
    note: '"n"',
    x: 'x',
    y: 'y',
    logX: true,
    lines: [
      {
        name: '<i>',
        points: [
          { x: 1, y: 2, low: 1, high: 3 },
          { x: 8, y: 5 },
        ],
      },
    ],
  });
  const bars = barChart({
    title: 't',
    note: '',
    unit: ' %',
    bars: [
      {
        name: 'one',
        parts: [
          { name: 'p', value: 40, dark: 2 },
          { name: 'q', value: 60, dark: 0.5 },
        ],
      },
    ],
  });
  for (const svg of [line, bars]) {
    t.match(svg, /^<svg [^]*<\/svg>\n$/);
    t.notMatch(svg, /NaN|undefined|Infinity/);
    t.equal(svg.split('<text').length, svg.split('</text>').length);
  }
  t.match(line, 'a &lt; b');
  t.notMatch(line, '<i>');
});
