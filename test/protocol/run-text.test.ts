// Tests that the recorded text of a request is limited to the end of the prompt and the start of the response.
import t from 'tap';
import { RunText } from '../../src/protocol/run-text.js';
import type { RunEvent } from '../../src/protocol/run-tally.js';

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
