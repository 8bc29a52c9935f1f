// Tests the parsing and evaluation of objectives. Sample statistics are compared with values calculated by hand.

import t from 'tap';
import { ascending, distributionOf, percentileOf, repeatedOf } from '../../src/bench/load/distribution.js';
import { isGood, judge, parseObjectives, showObjective } from '../../src/bench/load/objectives.js';
import { drawLength, parseLengths } from '../../src/bench/load/lengths.js';
import { drawsFrom } from '../../src/shared/random.js';
import { TextMaker, UNMEASURED, WORDS } from '../../src/bench/load/text-maker.js';
import type { RequestRecord } from '../../src/bench/load/types.js';

const answer = (ttft: number, gaps: number[], error: RequestRecord['error'] = null): RequestRecord => ({
  session: 0,
  turn: 0,
  phase: 'measured',
  intended: 100,
  sent: 110,
  headers: 120,
  firstToken: 100 + ttft,
  end: 100 + ttft + gaps.reduce((sum, gap) => sum + gap, 0),
  gaps: Float32Array.from(gaps),
  status: 200,
  error,
  finish: 'stop',
  wanted: { promptTokens: 8, outputTokens: 8 },
  promptTokens: 8,
  cachedTokens: 0,
  outputTokens: gaps.length + 1,
});

t.test('parses and formats objectives', (t) => {
  t.same(parseObjectives('ttft_p99=500ms, itl_p99.9=50ms,e2el=10s,tpot_p50=0.5ms,errors=1%'), [
    { metric: 'ttft', percentile: 99, limit: 500 },
    { metric: 'itl', percentile: 99.9, limit: 50 },
    { metric: 'e2e', percentile: 99, limit: 10_000 },
    { metric: 'tpot', percentile: 50, limit: 0.5 },
    { metric: 'errors', percentile: null, limit: 0.01 },
  ]);
  t.same(parseObjectives('ttft_p100:2s').map(showObjective), ['ttft_p100=2000ms']);
  t.same(
    parseObjectives(parseObjectives('itl_p95=33.3ms,errors=0.5%').map(showObjective).join(',')).map(showObjective),
    ['itl_p95=33.3ms', 'errors=0.5%'],
  );
  for (const [text, said] of [
    ['', /no objectives/],
    ['ttft', /"ttft": not an objective/],
    ['speed_p99=1s', /"speed_p99" is not one of ttft, itl/],
    ['ttft_p101=1s', /not one of/],
    ['ttft_p99=500', /number above 0 with us, ms, s or m/],
    ['ttft_p99=-1s', /number above 0/],
    ['itl=0ms', /above 0/],
    ['errors=120%', /0 to 100%/],
    ['ttft=1s,ttft_p99=2s', /"ttft_p99" is listed twice/],
  ] as const)
    t.throws(() => parseObjectives(text), { name: 'LoadError', message: said }, text);
  t.end();
});

t.test('measures objectives from the intended start, with an infinite latency for failed requests', (t) => {
  const all = parseObjectives('ttft_p50=200ms,itl_p99=20ms,e2e_p99=1s,errors=25%');
  const [fine, slow, stutters] = [answer(150, [10, 10]), answer(300, [10]), answer(100, [5, 90])];
  const broken = answer(0, [], { kind: 'http_503', message: '' });
  t.same(
    [fine, slow, stutters, broken].map((one) => isGood(one, all)),
    [true, false, false, false],
  );
  const [ttft, itl, e2e, errors] = judge([fine, slow, stutters, broken], all);
  t.match(ttft, { value: 225, met: false }, 'the median of 100, 150, 300 and infinity');
  t.match(itl, { value: Infinity, met: false }, 'the failed request has an infinite inter-token latency');
  t.match(e2e, { value: Infinity, met: false });
  t.match(errors, { value: 0.25, met: true });
  t.match(judge([fine, slow, stutters], parseObjectives('itl_p50=10ms')), [{ value: 10, met: true }]);
  t.match(
    judge([], all).map(({ met }) => met),
    [false, false, false, false],
    'no objective is met without measurements',
  );
  t.match(
    judge([fine, answer(0, [], { kind: 'cancelled', message: '' })], parseObjectives('errors=0%')),
    [{ value: 0, met: true }],
    'cancelled requests are not counted',
  );
  t.end();
});

t.test('computes distributions and confidence intervals', (t) => {
  t.match(distributionOf(ascending([4, 1, 3, 2])), {
    count: 4,
    mean: 2.5,
    min: 1,
    p50: 2.5,
    p75: 3.25,
    max: 4,
    deviation: Math.sqrt(1.25),
  });
  t.equal(percentileOf([1, Infinity, Infinity], 75), Infinity);
  t.equal(distributionOf([]), null);
  // For three values: t(0.975, 2) = 4.303, standard error 1/sqrt(3).
  const { mean, low, high } = repeatedOf([9, 10, 11]);
  t.same([mean, Number(low?.toFixed(3)), Number(high?.toFixed(3))], [10, 7.516, 12.484]);
  t.match(repeatedOf([5]), { mean: 5, low: null, high: null });
  t.end();
});

t.test('draws lengths, and creates texts with an exact number of tokens', (t) => {
  const drawn = (text: string): number[] => {
    const draws = drawsFrom(5);
    return Array.from({ length: 4000 }, () => drawLength(parseLengths(text, '--x'), draws));
  };
  const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
  t.same([...new Set(drawn('12'))], [12]);
  t.same([Math.min(...drawn('3..9')), Math.max(...drawn('3..9'))], [3, 9]);
  const normal = drawn('1_000~300');
  t.ok(
    Math.abs(mean(normal) - 1000) < 25 && Math.min(...normal) >= 250 && Math.max(...normal) <= 4000,
    `${mean(normal)}`,
  );
  for (const text of ['', '0', 'x', '9..3', '5..', '-4', '1e3'])
    t.throws(() => parseLengths(text, '--x'), { name: 'LoadError', message: /^--x: / }, text);
  const tokens = WORDS.slice(0, 40).map((word) => Math.ceil(word.length / 2));
  const maker = new TextMaker({ tokens, overhead: 0, exact: true });
  for (const wanted of [1, 2, 7, 500])
    t.equal(
      maker
        .text(wanted, 1, wanted)
        .trim()
        .split(' ')
        .reduce((sum, word) => sum + Math.ceil(word.length / 2), 0),
      wanted,
    );
  t.equal(maker.text(50, 3, 4), maker.text(50, 3, 4));
  t.not(maker.text(50, 3, 4), maker.text(50, 3, 5));
  t.equal(new TextMaker(UNMEASURED).text(30, 1).trim().split(' ').length, 30);
  t.end();
});
