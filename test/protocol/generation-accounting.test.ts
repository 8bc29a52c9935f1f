// Tests a generation's running totals, and that only the end of the prompt and the start of the response are recorded.
import { performance } from 'node:perf_hooks';
import t from 'tap';
import type { TokenCount } from '../../src/shared/token-count.js';
import { RunTally, type RunEvent } from '../../src/protocol/run-tally.js';
import { RunText } from '../../src/protocol/run-text.js';
import { createTelemetry } from '../../src/telemetry/telemetry.js';

const telemetry = createTelemetry({ format: 'json', level: 'silent' });
t.teardown(() => telemetry.close());

/** Each test uses its own model name, so that its metrics are separate. */
let models = 0;
function tallied(promptTokens: TokenCount, n: number) {
  const labels = { model: `m${models++}`, endpoint: '/v1/chat/completions' };
  return {
    tally: new RunTally({ promptTokens, n }, telemetry.generation(labels), performance.now()),
    observed: async (name: string): Promise<number> => {
      const line = (await telemetry.scrape())
        .split('\n')
        .find((one) => one.startsWith(`monolith_${name}_count{model="${labels.model}",`));
      return line === undefined ? 0 : Number(line.slice(line.lastIndexOf(' ') + 1));
    },
  };
}

const text = (choice: number, tokens: number, section: 'content' | 'reasoning' = 'content'): RunEvent => ({
  type: 'text',
  choice,
  section,
  text: 'x',
  tokens,
  logprobs: null,
});
const finished = (choice: number, completionTokens: number, reasoningTokens = 0): RunEvent => ({
  type: 'finished',
  choice,
  reason: 'end_of_turn',
  stopString: null,
  completionTokens,
  reasoningTokens,
  calls: 0,
  timings: { prefillMs: 1, decodeMs: 1 },
});

t.test('the estimated prompt size is replaced with the actual one', async (t) => {
  const { tally } = tallied({ tokens: 500, exact: false }, 1);
  t.match(tally, { stage: 'queue', startedAt: null, usage: { promptTokens: 500, cachedTokens: 0 } });
  tally.take({ type: 'started', promptTokens: 40, cachedTokens: 5, queueMs: 1 });
  t.match(tally, {
    stage: 'prefill',
    startedAt: Number,
    firstTokenAt: null,
    usage: { promptTokens: 40, cachedTokens: 5 },
  });
});

t.test("the vision encoder's time is recorded separately", async (t) => {
  const seeing = tallied({ tokens: 1, exact: true }, 1),
    blind = tallied({ tokens: 1, exact: true }, 1);
  seeing.tally.take({ type: 'started', promptTokens: 1, cachedTokens: 0, queueMs: 1.2, towerMs: 30.6 });
  blind.tally.take({ type: 'started', promptTokens: 1, cachedTokens: 0, queueMs: 1.2 });
  t.match(
    [seeing.tally, blind.tally],
    [
      { queueMs: 1, towerMs: 31 },
      { queueMs: 1, towerMs: null },
    ],
  );
  t.same([await seeing.observed('tower_seconds'), await blind.observed('tower_seconds')], [1, 0]);
  t.same([await seeing.observed('queue_seconds'), await blind.observed('queue_seconds')], [1, 1]);
});

t.test("a choice's total counts its events until its end event reports the total", async (t) => {
  const { tally } = tallied({ tokens: 1, exact: true }, 2);
  tally.take(text(0, 2, 'reasoning'));
  tally.take(text(0, 1));
  tally.take(text(1, 1));
  tally.take({ type: 'call_started', choice: 1, index: 0, name: 'f', tokens: 3 });
  t.match(tally.usage, { completionTokens: 7, reasoningTokens: 2 });
  tally.take(finished(0, 6, 4));
  t.match(
    tally,
    { choicesLeft: 1, usage: { completionTokens: 10, reasoningTokens: 4 } },
    'the other choice counts the tokens generated so far',
  );
  tally.take(text(1, 1));
  t.match(tally.usage, { completionTokens: 11 });
  tally.take(finished(1, 4));
  t.match(
    tally,
    { choicesLeft: 0, usage: { completionTokens: 11, reasoningTokens: 4 } },
    'the total never decreases below the tokens already reported',
  );
});

t.test('estimated counts of a choice are replaced at its end', async (t) => {
  const { tally } = tallied({ tokens: 9, exact: false }, 2);
  tally.take(text(0, 8, 'reasoning'));
  tally.take(text(1, 3, 'reasoning'));
  tally.take({ ...finished(0, 5, 1), counted: { promptTokens: 30, cachedTokens: 2, estimated: false } } as RunEvent);
  t.match(tally, {
    estimated: false,
    usage: { promptTokens: 30, cachedTokens: 2, completionTokens: 5 + 3, reasoningTokens: 1 + 3 },
  });
  tally.take({ ...finished(1, 7, 4), counted: { promptTokens: 30, cachedTokens: 2, estimated: true } } as RunEvent);
  t.match(
    tally,
    { estimated: true, usage: { completionTokens: 5 + 7, reasoningTokens: 1 + 4 } },
    'the replaced count may be higher than the estimate',
  );
});

t.test('latencies are recorded per choice', async (t) => {
  const { tally, observed } = tallied({ tokens: 1, exact: true }, 2);
  tally.take({ type: 'started', promptTokens: 1, cachedTokens: 0, queueMs: 1 });
  tally.take(text(0, 0));
  t.match(tally, { stage: 'prefill', firstTokenAt: null }, 'released held-back text does not count as a token');
  tally.take(text(0, 1));
  tally.take(text(1, 1));
  t.match(tally, { stage: 'decode', firstTokenAt: Number });
  t.equal(await observed('inter_token_seconds'), 0, 'the first token of each choice has no predecessor');
  tally.take(text(0, 3));
  t.equal(await observed('inter_token_seconds'), 3);
  t.equal(await observed('time_to_first_token_seconds'), 1);
  t.equal(await observed('queue_seconds'), 1);
});

t.test('times are consistent even if the clock is changed or the machine sleeps', async (t) => {
  const HOUR_MS = 3_600_000,
    now = Date.now;
  for (const ahead of [0, 8 * HOUR_MS, -8 * HOUR_MS]) {
    const { tally } = tallied({ tokens: 1, exact: true }, 1);
    t.match(tally.times(), { startedAt: null, firstTokenAt: null });
    Date.now = () => now() + ahead;
    t.teardown(() => {
      Date.now = now;
    });
    tally.take({ type: 'started', promptTokens: 1, cachedTokens: 0, queueMs: 1 });
    tally.take(text(0, 1));
    await new Promise((done) => {
      setTimeout(done, 20);
    });
    const { receivedAt, startedAt, firstTokenAt, endedAt } = tally.times();
    t.ok(Math.abs(endedAt - Date.now()) <= 5, 'the end time is that of the current wall clock');
    t.ok(receivedAt <= startedAt! && startedAt! <= firstTokenAt! && firstTokenAt! <= endedAt, 'the times are in order');
    t.ok(
      endedAt - firstTokenAt! >= 15 && endedAt - receivedAt < HOUR_MS,
      'the intervals are measured by the monotonic clock',
    );
    Date.now = now;
  }
});

t.test('an event of an unknown choice throws', async (t) => {
  const { tally } = tallied({ tokens: 1, exact: true }, 1);
  t.throws(() => tally.take(text(1, 1)), /choice 1/);
});

const told = (room: number, ...events: [choice: number, section: 'content' | 'reasoning', text: string][]): RunText => {
  const text = new RunText(room, []);
  for (const [choice, section, piece] of events)
    text.take({ type: 'text', choice, section, text: piece, tokens: 1, logprobs: null } satisfies RunEvent);
  return text;
};

t.test('the start of the response is kept over all choices and sections, in order of arrival', async (t) => {
  const events = [
    [0, 'reasoning', 'abc'],
    [1, 'content', 'de'],
    [0, 'reasoning', 'f'],
    [0, 'content', 'ghi'],
  ] as [number, 'content', string][];
  const whole = [
    { choice: 0, section: 'reasoning', text: 'abcf' },
    { choice: 1, section: 'content', text: 'de' },
    { choice: 0, section: 'content', text: 'ghi' },
  ];
  t.same(told(9, ...events).text, { prompt: [], answer: whole, cut: false });
  t.same(told(7, ...events).text, {
    prompt: [],
    answer: [...whole.slice(0, 2), { choice: 0, section: 'content', text: 'g' }],
    cut: true,
  });
  t.same(told(6, ...events).text, { prompt: [], answer: whole.slice(0, 2), cut: true }, 'there are no empty pieces');
});

t.test('each call is recorded separately, its name before its arguments', async (t) => {
  const text = new RunText(100, []);
  for (const index of [0, 1]) {
    text.take({ type: 'call_started', choice: 0, index, name: 'look', tokens: 1 });
    for (const piece of ['{"a"', ':1}'])
      text.take({ type: 'call_arguments', choice: 0, index, text: piece, tokens: 1 });
  }
  t.same(
    text.text.answer,
    ['look {"a":1}', 'look {"a":1}'].map((call) => ({ choice: 0, section: 'call', text: call })),
  );
});

t.test('the end of the prompt is kept', async (t) => {
  const messages = [
    { role: 'system' as const, content: 'abcd' },
    { role: 'user' as const, content: 'efg' },
  ];
  const kept = (room: number): unknown => new RunText(room, messages).text;
  t.same(kept(7), {
    prompt: [
      { role: 'system', text: 'abcd' },
      { role: 'user', text: 'efg' },
    ],
    answer: [],
    cut: false,
  });
  t.same(kept(5), {
    prompt: [
      { role: 'system', text: 'cd' },
      { role: 'user', text: 'efg' },
    ],
    answer: [],
    cut: true,
  });
  t.same(kept(3), { prompt: [{ role: 'user', text: 'efg' }], answer: [], cut: true });
});
