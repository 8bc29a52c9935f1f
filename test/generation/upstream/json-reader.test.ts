// Tests the streaming JSON reader: regardless of how the input is split, the reader keeps only the members that an API
// format uses, within its limit.
import t from 'tap';
import { JsonEntries, JsonReader, RawJson } from '../../../src/generation/upstream/json-reader.js';

interface Kept {
  value: unknown;
  reserved: number;
  freed: number;
}

function read(text: string, cut: number, { maxBytes = 1_000_000, logprobs = true } = {}): Kept {
  const kept: Kept = { value: undefined, reserved: 0, freed: 0 };
  const reader = new JsonReader({
    maxBytes,
    logprobs,
    reserve: (bytes) => {
      kept.reserved += bytes;
    },
    free: (bytes) => {
      kept.freed += bytes;
    },
    tooLong: () => new Error('too long'),
    malformed: () => new Error('malformed'),
  });
  for (let at = 0; at < text.length; at += cut) reader.push(text.slice(at, at + cut));
  kept.value = reader.end();
  return kept;
}

/** Recursively converts JsonEntries to arrays and RawJson to `{ raw: text }`. */
const plain = (value: unknown): unknown => {
  if (value instanceof JsonEntries) return [...value.batches()].flat();
  if (value instanceof RawJson) return { raw: value.text };
  if (Array.isArray(value)) return value.map(plain);
  return typeof value === 'object' && value !== null
    ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, plain(inner)]))
    : value;
};

const answer = {
  id: 'c',
  object: 'chat.completion',
  timings: { x: [1, { y: '"]}' }] },
  choices: [
    {
      index: 0,
      finish_reason: 'stop',
      message: {
        role: 'assistant',
        content: 'a "quote", \\ a\tb \u0001 ä€😀',
        reasoning: null,
        annotations: [[], {}],
        tool_calls: [{ id: 'x', function: { name: 'f', arguments: '{"a":1}' } }],
      },
      logprobs: {
        content: [
          { token: '],[', logprob: -0.5, bytes: [93], top_logprobs: [{ token: '"', logprob: -1e-7 }] },
          { token: 'b', logprob: -1 },
        ],
        refusal: [],
      },
    },
  ],
  usage: { prompt_tokens: 5, completion_tokens: 7, prompt_tokens_details: { cached_tokens: 2 }, cost: 0.1 },
};
const wanted = {
  id: 'c',
  choices: [
    {
      index: 0,
      finish_reason: 'stop',
      message: {
        content: answer.choices[0]!.message.content,
        reasoning: null,
        tool_calls: answer.choices[0]!.message.tool_calls,
      },
      logprobs: { content: answer.choices[0]!.logprobs.content },
    },
  ],
  usage: { prompt_tokens: 5, completion_tokens: 7, prompt_tokens_details: { cached_tokens: 2 } },
};

t.test('keeps the members that an API format uses, for any split and spelling', async (t) => {
  const escaped = JSON.stringify(answer).replace(
    /[äö€😀]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  for (const text of [JSON.stringify(answer), JSON.stringify(answer, null, 2), `\n ${escaped} `]) {
    for (const cut of [1, 2, 3, 5, 7, 11, 64, text.length])
      t.same(plain(read(text, cut).value), wanted, `pieces of ${cut}`);
  }
});

t.test('keeps an object of arguments as its JSON text', async (t) => {
  const text =
    '{"content":[{"type":"tool_use","name":"f","input":{"id": 2512292042121000001, "x":"}"}}],"function":{"arguments":{"a":1.0}}}';
  for (const cut of [1, 6, 200]) {
    t.same(plain(read(text, cut).value), {
      content: [{ type: 'tool_use', name: 'f', input: { raw: '{"id": 2512292042121000001, "x":"}"}' } }],
      function: { arguments: { raw: '{"a":1.0}' } },
    });
  }
});

t.test('drops log probabilities that were not requested', async (t) => {
  const { value, reserved } = read(JSON.stringify(answer), 50, { logprobs: false });
  const { logprobs, ...choice } = wanted.choices[0]!;
  t.equal(logprobs.content.length, 2);
  t.same(plain(value), { ...wanted, choices: [choice] });
  t.equal(reserved, 0);
});

t.test('a long list reserves memory outside the general limit, which is freed as the list is read', async (t) => {
  const entry = '{"token":"a","logprob":-1,"bytes":[97]}',
    count = 20_000;
  const { value, reserved } = read(
    `{"logprobs":[${Array.from({ length: count }, () => entry).join(', ')}],"text":"x"}`,
    1_000,
    { maxBytes: 1_000 },
  );
  const list = (value as { logprobs: JsonEntries }).logprobs;
  t.ok(reserved > count * entry.length, `${reserved} bytes reserved`);
  let entries = 0,
    most = 0;
  for (const batch of list.batches()) {
    entries += batch.length;
    most = Math.max(most, batch.length);
  }
  t.equal(entries, count);
  t.ok(most < 1_000, `at most ${most} entries at a time`);
});

t.test('limits the kept text, but not the skipped text', async (t) => {
  const long = 'x'.repeat(2_000);
  t.throws(() => read(`{"content":"${long}"}`, 100, { maxBytes: 1_000 }), /too long/);
  t.throws(() => read(`{"choices":[${'{},'.repeat(500)}{}]}`, 100, { maxBytes: 1_000 }), /too long/);
  t.throws(() => read(`{"function":{"arguments":{"a":"${long}"}}}`, 100, { maxBytes: 1_000 }), /too long/);
  t.throws(() => read(`{"logprobs":[{"token":"${'x'.repeat(200_000)}"}]}`, 10_000), /too long/);
  t.same(
    plain(
      read(`{"${long}":1,"other":[${'{"content":"x"},'.repeat(10_000)}{}],"text":"a"}`, 100, { maxBytes: 1_000 }).value,
    ),
    { text: 'a' },
  );
});

t.test('refuses text that is not JSON', async (t) => {
  for (const text of [
    '',
    '{',
    '{"text":"a"',
    '{"text":"a"]',
    '{"text" "a"}',
    '{text:1}',
    '{"text":tru}',
    '{"text":"\\x"}',
    '{"text":"a\nb"}',
    '[1,]',
    '{"text":1}}',
    '{"choices":[1 2]}',
    `{"choices":${'['.repeat(100)}`,
  ]) {
    for (const cut of [1, 100]) t.throws(() => read(text, cut), /malformed/, text.slice(0, 20));
  }
});
