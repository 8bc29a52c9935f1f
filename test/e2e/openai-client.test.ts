// Runs the unmodified official client against a real server. Covers section 10 of the Chat Completions contract.
import OpenAI from 'openai';
import t from 'tap';
import { startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const server = await startMonolith();
t.teardown(() => server.stop());
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
const question = [
  { role: 'user' as const, content: 'Is this review positive or negative? "The soup was cold and the waiter rude."' },
];

t.test('lists the models', async (t) => {
  const ids: string[] = [];
  for await (const model of client.models.list()) ids.push(model.id);
  t.same(ids, ['hal-1.0', 'clarke-1.0', 'tycho-1.0', 'discovery-embed-1.0']);
  // The model list of this API is a single page, regardless of the requested limit.
  const asked: string[] = [];
  for await (const model of client.models.list({ query: { limit: 1 } })) asked.push(model.id);
  t.same(asked, ids);
  t.equal((await client.models.retrieve('tycho-1.0')).object, 'model');
});

t.test('returns a complete completion with its usage and headers', async (t) => {
  const { data, response } = await client.chat.completions
    .create({ model: 'clarke-1.0', messages: question, temperature: 0, max_completion_tokens: 40 })
    .withResponse();
  const choice = data.choices[0]!;
  t.equal(data.model, 'clarke-1.0');
  t.match(data.id, /^chatcmpl-[0-9A-Za-z]{29}$/);
  t.match(data.system_fingerprint, /^fp_[0-9a-f]{10}$/);
  t.ok(choice.message.content!.length > 0);
  t.match(choice.finish_reason, /^(stop|length)$/);
  t.equal(data.usage!.total_tokens, data.usage!.prompt_tokens + data.usage!.completion_tokens);
  t.match(response.headers.get('x-request-id'), /^req_/);
  t.ok(response.headers.get('x-ratelimit-remaining-tokens'));
});

t.test(
  'streamed text equals the complete response, greedy sampling is deterministic, and the prefix is cached',
  async (t) => {
    const request = { model: 'tycho-1.0', messages: question, temperature: 0, max_tokens: 40 };
    const whole = await client.chat.completions.create(request);
    const stream = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
    const final = await stream.finalChatCompletion();
    t.equal(final.choices[0]!.message.content, whole.choices[0]!.message.content);
    t.equal(final.choices[0]!.finish_reason, whole.choices[0]!.finish_reason);
    t.equal(final.usage!.completion_tokens, whole.usage!.completion_tokens);
    t.ok(final.usage!.prompt_tokens_details!.cached_tokens! >= 16, 'the second request reuses KV pages of the first');
  },
);

t.test(
  'seeded sampling is reproducible, and the choices of a request differ from the responses for other seeds',
  async (t) => {
    const request = {
      model: 'tycho-1.0',
      messages: [{ role: 'user' as const, content: 'Tell me a short story about a fox.' }],
      temperature: 2,
      max_tokens: 24,
      seed: 5,
    };
    const texts = async (change: object) =>
      (await client.chat.completions.create({ ...request, ...change })).choices.map((choice) => choice.message.content);
    const [first] = await texts({});
    t.same(await texts({}), [first]);
    const choices = await texts({ n: 3 });
    t.equal(choices[0], first, 'the first choice equals the response without n');
    t.same(await texts({ n: 3 }), choices);
    const all = [...choices, ...(await texts({ seed: 6 })), ...(await texts({ seed: 7 }))];
    t.equal(new Set(all).size, all.length);
  },
);

t.test('stop strings end the response before the match, even if it spans several tokens', async (t) => {
  const whole = (
    await client.chat.completions.create({ model: 'tycho-1.0', messages: question, temperature: 0, max_tokens: 40 })
  ).choices[0]!.message.content!;
  for (let at = 1; at + 2 <= whole.length && at < 12; at++) {
    const stop = whole.slice(at, at + 2);
    const expected = whole.slice(0, whole.indexOf(stop));
    const cut = await client.chat.completions.create({
      model: 'tycho-1.0',
      messages: question,
      temperature: 0,
      max_tokens: 40,
      stop: [stop],
    });
    t.equal(cut.choices[0]!.message.content, expected, `stop ${JSON.stringify(stop)}`);
    t.match(cut.choices[0], { finish_reason: 'stop', stop_reason: stop });
    let streamed = '',
      met: unknown;
    for await (const chunk of await client.chat.completions.create({
      model: 'tycho-1.0',
      messages: question,
      temperature: 0,
      max_tokens: 40,
      stop,
      stream: true,
    })) {
      streamed += chunk.choices[0]?.delta.content ?? '';
      met ??= (chunk.choices[0] as { stop_reason?: string | null }).stop_reason;
    }
    t.same([streamed, met], [expected, stop]);
  }
});

t.test('returns log-probabilities, streamed or not', async (t) => {
  const request = {
    model: 'tycho-1.0',
    messages: question,
    temperature: 0,
    max_tokens: 8,
    logprobs: true,
    top_logprobs: 3,
  };
  const whole = (await client.chat.completions.create(request)).choices[0]!;
  const entries = whole.logprobs!.content!;
  t.equal(entries.map((entry) => entry.token).join(''), whole.message.content);
  for (const entry of entries) {
    t.equal(entry.top_logprobs.length, 3);
    t.equal(entry.top_logprobs[0]!.logprob, entry.logprob, 'greedy sampling picks the most likely token');
    t.same(entry.bytes, [...Buffer.from(entry.token)]);
    t.ok(entry.logprob <= 0);
  }
  const streamed: unknown[] = [];
  for await (const chunk of await client.chat.completions.create({ ...request, stream: true }))
    streamed.push(...(chunk.choices[0]?.logprobs?.content ?? []));
  t.same(streamed, entries);
});

t.test('applies max_completion_tokens and logit_bias', async (t) => {
  const one = await client.chat.completions.create({
    model: 'tycho-1.0',
    messages: question,
    max_completion_tokens: 1,
    temperature: 0,
  });
  t.equal(one.choices[0]!.finish_reason, 'length');
  t.equal(one.usage!.completion_tokens, 1);
  const forced = await client.chat.completions.create({
    model: 'tycho-1.0',
    messages: question,
    max_tokens: 4,
    temperature: 0,
    logit_bias: { 65: 100 },
  });
  t.equal(new Set(forced.choices[0]!.message.content).size, 1, 'the same token repeats');
});

t.test('reasoning markers appear neither in the text nor in the reasoning', async (t) => {
  const answer = (
    await client.chat.completions.create({
      model: 'tycho-1.0',
      messages: question,
      temperature: 0,
      max_tokens: 200,
      reasoning_effort: 'low',
    })
  ).choices[0]!;
  const message = answer.message as { content: string; reasoning_content?: string };
  t.notMatch(message.content, /<\/?think>/);
  t.notMatch(message.reasoning_content ?? '', /<\/?think>/);
});

t.test('control tokens in user text are treated as text', async (t) => {
  const usage = async (content: string) =>
    (await client.chat.completions.create({ model: 'tycho-1.0', messages: [{ role: 'user', content }], max_tokens: 1 }))
      .usage!.prompt_tokens;
  const plain = await usage('x');
  t.ok((await usage('<|im_end|>')) - plain > 2, 'the marker is tokenized as text, not as one control token');
});

t.test('errors reach the client as the error types that it expects', async (t) => {
  const cases: [request: Record<string, unknown>, status: number, code: string, param: string | null][] = [
    [{ model: 'nope' }, 404, 'model_not_found', 'model'],
    [{ temperature: 3 }, 422, 'value_out_of_range', 'temperature'],
    [{ temperature: 'hot' }, 400, 'invalid_type', 'temperature'],
    [
      { messages: [{ role: 'user', content: 'many words '.repeat(5_000) }] },
      400,
      'context_length_exceeded',
      'messages',
    ],
    [{ logit_bias: { 99999: 1 } }, 422, 'invalid_value', 'logit_bias'],
  ];
  for (const [change, status, code, param] of cases) {
    const request = {
      model: 'tycho-1.0',
      messages: question,
      max_tokens: 1,
      ...change,
    } as OpenAI.ChatCompletionCreateParamsNonStreaming;
    const error = await client.chat.completions.create(request).then(
      () => null,
      (thrown: unknown) => thrown,
    );
    t.ok(error instanceof OpenAI.APIError, code);
    t.match(error, { status, code, param });
  }
  const wrong = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'sk-wrong', maxRetries: 0 });
  await t.rejects(wrong.models.list(), { status: 401, code: 'invalid_api_key' });
});

t.test('unknown fields are ignored and listed in x-ignored-parameters', async (t) => {
  const { response } = await client.chat.completions
    .create({ model: 'tycho-1.0', messages: question, max_tokens: 1, ...{ made_up: 1 } })
    .withResponse();
  t.equal(response.headers.get('x-ignored-parameters'), 'made_up');
});

t.test('a model at a high temperature calls only the allowed tools', async (t) => {
  const tools = ['get_weather', 'get_time', 'send_mail', 'play_music'].map((name) => ({
    type: 'function' as const,
    name,
    parameters: { type: 'object', properties: {} },
    strict: false,
  }));
  const called = new Set<string>();
  await Promise.all(
    Array.from({ length: 30 }, async (_, at) => {
      const { output } = await client.responses.create({
        model: 'tycho-1.0',
        input: ['Play some music.', 'What is the weather in Paris?', 'Send a mail to Bob.'][at % 3]!,
        tools,
        temperature: 2,
        max_output_tokens: 60,
        store: false,
        reasoning: { effort: 'none' },
        tool_choice: {
          type: 'allowed_tools',
          mode: at % 2 === 0 ? 'required' : 'auto',
          tools: [
            { type: 'function', name: 'get_time' },
            { type: 'function', name: 'send_mail' },
          ],
        },
      });
      for (const item of output) if (item.type === 'function_call') called.add(item.name);
    }),
  );
  t.ok(called.size > 0);
  t.same(
    [...called].filter((name) => name !== 'get_time' && name !== 'send_mail'),
    [],
  );
});
