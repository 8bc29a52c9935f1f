// Tests the search's components: the space of settings, the Gaussian process, the choice of the next point, and the
// Pareto front.
import t from 'tap';
import { paretoFrontOf } from '../../src/bench/tune/pareto-front.js';
import { GaussianProcess } from '../../src/bench/tune/gaussian-process.js';
import { normal, randomFrom } from '../../src/shared/random.js';
import { Search } from '../../src/bench/tune/search.js';
import type { Observation } from '../../src/bench/tune/search.js';
import { rounded, Space } from '../../src/bench/tune/space.js';
import type { Point } from '../../src/bench/tune/space.js';

const KNOBS = [
  { name: 'a', min: 1, max: 1_000 },
  { name: 'b', min: 10, max: 40 },
];

t.test('the space has two-digit integers on a logarithmic scale', async (t) => {
  const space = new Space(KNOBS);
  t.same([1, 7, 99, 101, 768, 4_096].map(rounded), [1, 7, 99, 100, 770, 4_100]);
  t.same(space.point([0, 1]), { a: 1, b: 40 });
  t.same(space.point([0.5, 0.5]), { a: 32, b: 20 });
  t.same(space.unit({ a: 1_000, b: 5 }), [1, 0], 'a value outside the range is clamped');
  t.same(
    space.grid({ a: 3, b: 2 }).map(({ a, b }) => [a, b]),
    [
      [1, 10],
      [1, 40],
      [32, 10],
      [32, 40],
      [1_000, 10],
      [1_000, 40],
    ],
  );
  t.equal(new Space([{ name: 'a', min: 1, max: 2 }]).grid({ a: 5 }).length, 2, 'no point occurs twice');
  const spread = space.spread(8, randomFrom(1));
  t.same(
    spread.map((point) => Math.floor((space.unit(point)[0] as number) * 7.999)).sort(),
    [0, 1, 2, 3, 4, 5, 6, 7],
    'the initial points cover each part of the range once',
  );
  t.throws(() => new Space([{ name: 'a', min: 0, max: 2 }]), /a: 0 to 2/);
});

t.test('the Gaussian process is certain near its samples, uncertain far from them, and averages noise', async (t) => {
  const random = randomFrom(5);
  const inputs = Array.from({ length: 40 }, () => [random() * 0.7, random()]);
  // The second input has no influence.
  const f = ([x = 0]: readonly number[]): number => 100 + 20 * Math.sin(6 * x);
  const process = GaussianProcess.fit(
    inputs,
    inputs.map((input) => f(input) + 2 * normal(random)),
  );
  for (const x of [0.1, 0.3, 0.5, 0.65]) {
    const { mean, deviation } = process.at([x, 0.5]);
    t.ok(Math.abs(mean - f([x])) < 3 * deviation && deviation < 2.5, `${x}: ${mean} ± ${deviation} for ${f([x])}`);
  }
  t.ok(process.at([1, 0.5]).deviation > 2 * process.at([0.5, 0.5]).deviation);
  const [first = 0, second = 0] = process.parameters;
  t.ok(second > first + 0.7, 'the irrelevant input has the longer length scale');
  t.same(GaussianProcess.fit([[0.5]], [3]).at([0.5]).mean, 3);
  t.equal(
    GaussianProcess.fit([[0.1], [0.1], [0.9]], [1, 1, 1]).at([0.4]).mean,
    1,
    'equal values and repeated inputs are handled',
  );
});

t.test('proposed points are seeded, inside the space, distinct, and respect fixed values', async (t) => {
  const rows = [1, 2].map(() => {
    const search = new Search({ knobs: KNOBS, seed: 9 });
    return Array.from({ length: 14 }, (_, at) => {
      const point = search.ask(at % 5 === 4 ? { b: 20 } : {});
      const a = point['a'] as number;
      search.tell({ point, throughput: a, goodput: a, ratios: [a / 300], stopped: a > 600 });
      return point;
    });
  });
  t.same(rows[0], rows[1]);
  const [asked = []] = rows;
  t.equal(new Set(asked.map((point) => JSON.stringify(point))).size, asked.length);
  t.ok(asked.every(({ a = 0, b = 0 }) => a >= 1 && a <= 1_000 && b >= 10 && b <= 40));
  t.same([asked[4]?.['b'], asked[9]?.['b']], [20, 20]);
  const best = Math.max(...asked.map(({ a = 0 }) => a).filter((a) => a <= 300));
  t.ok(best >= 270, `the best point is close to the objective's limit: ${best}`);
});

t.test('in a small space, every point is proposed exactly once', async (t) => {
  const search = new Search({
    knobs: [
      { name: 'a', min: 1, max: 3 },
      { name: 'b', min: 10, max: 11 },
    ],
    seed: 3,
    spread: 2,
  });
  for (let at = 0; at < 6; at++) {
    const point = search.ask();
    search.tell({
      point,
      throughput: 1 + (point['a'] as number),
      goodput: 1 + (point['a'] as number),
      ratios: [0.5],
      stopped: false,
    });
  }
  t.equal(new Set(search.observations.map(({ point }) => search.space.key(point))).size, 6);
});

t.test('only points that meet every objective in every measurement are ranked', async (t) => {
  const search = new Search({ knobs: KNOBS, seed: 1 });
  for (const [a, ratio, stopped] of [
    [10, 0.5, false],
    [20, 0.9, false],
    [20, 1.1, false],
    [30, 0.5, true],
    [40, 2, false],
    [12, 0.4, false],
  ] as const) {
    search.tell({ point: { a, b: 20 }, throughput: a, goodput: a, ratios: [ratio], stopped });
  }
  t.same(
    search.ranked().map(({ a }) => a),
    [12, 10],
  );
  t.same(search.ranked({ b: 30 }), []);
});

t.test('the Pareto front contains the points that no other point dominates', async (t) => {
  t.same(
    paretoFrontOf([
      [1, 5],
      [2, 4],
      [2, 5],
      [3, 3],
      [3, 3],
      [9, 9],
    ]),
    [true, true, false, true, true, false],
  );
  t.same(paretoFrontOf([]), []);
});

t.test('points are ranked by goodput, not by throughput', async (t) => {
  // Up to a = 100, all requests meet the objectives. Above that, throughput still grows, but fewer and fewer requests
  // meet the objectives.
  const measure = (point: Point): Observation => {
    const a = point['a'] as number;
    const throughput = 10 + Math.log(a);
    return {
      point,
      throughput,
      goodput: throughput * Math.min(1, Math.max(0, 1 - Math.log(a / 100) / Math.log(8))),
      ratios: [a / 900],
      stopped: false,
    };
  };
  const search = new Search({ knobs: KNOBS, seed: 3 });
  for (let at = 0; at < 16; at++) search.tell(measure(search.ask()));
  const [best] = search.ranked();
  t.ok((best?.['a'] as number) > 40 && (best?.['a'] as number) < 200, `measured: ${best?.['a']}`);
  // The search also finds good settings if a value must be used that was never measured.
  const { a, b } = search.believed({ b: 33 }) as { a: number; b: number };
  t.ok(a > 40 && a < 200 && b === 33, `believed: ${a}`);
  const hopeless = new Search({ knobs: KNOBS, seed: 3 });
  for (let at = 0; at < 8; at++) hopeless.tell({ ...measure(hopeless.ask()), ratios: [3] });
  t.equal(hopeless.believed({}), null, 'no point is believed to meet the objectives');
});
