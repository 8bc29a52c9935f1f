// Tests tools, structured output and reasoning through the official client, against a model that writes scripted output
// (test/support/scripts.ts). Covers sections 4 to 8 of the Chat Completions contract and the checks of section 10.
import OpenAI from 'openai';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import t from 'tap';
import { z } from 'zod';
import { mismatch } from '../support/open-api.js';
import { said, standardScripts, startScripted } from '../support/script-model.js';
import { eventually } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

/** A text long enough that its stream can be observed before it ends. */
const long = Array.from({ length: 200 }, (_, index) => `x${index} `);

const server = await startScripted({ scripts: { ...standardScripts, X: long } });
t.teardown(() => server.stop());
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });

type Request = Omit<OpenAI.ChatCompletionCreateParamsNonStreaming, 'model' | 'messages'>;
type Message = OpenAI.ChatCompletionMessageParam;

const tool = (name: string, properties: object = {}): OpenAI.ChatCompletionFunctionTool => ({
  type: 'function',
  function: { name, description: `The ${name} tool.`, parameters: { type: 'object', properties } },
});
const tools = [
  tool('get_weather', { location: { type: 'string' } }),
  tool('save_note', { text: { type: 'string' } }),
  tool('get_time'),
  tool('write_file', { path: { type: 'string' }, content: { type: 'string' } }),
];
const ask = (letter: string): Message[] => [{ role: 'user', content: `${letter}: please` }];
interface Called {
  name: string;
  arguments: string;
}
const base = { model: 'clarke-1.0', reasoning_effort: 'none' as const };

const calledIn = (message: OpenAI.ChatCompletionMessage): Called[] =>
  (message.tool_calls ?? []).map((call) =>
    call.type === 'function'
      ? { name: call.function.name, arguments: call.function.arguments }
      : { name: '', arguments: '' },
  );

async function whole(letter: string, change: Request = {}): Promise<OpenAI.ChatCompletion> {
  const answer = await client.chat.completions.create({ ...base, messages: ask(letter), ...change });
  const problem = mismatch('openai', 'CreateChatCompletionResponse', answer);
  if (problem !== null) throw new Error(problem);
  return answer;
}

/** A stream's chunks, and the completion that the client's own helper assembles from the chunks. */
async function streamed(
  letter: string,
  change: Request = {},
): Promise<{ chunks: OpenAI.ChatCompletionChunk[]; final: OpenAI.ChatCompletion }> {
  const chunks: OpenAI.ChatCompletionChunk[] = [];
  const stream = client.chat.completions.stream({
    ...base,
    messages: ask(letter),
    stream_options: { include_usage: true },
    ...change,
    stream: true,
  });
  stream.on('chunk', (chunk) => chunks.push(structuredClone(chunk)));
  const final = await stream.finalChatCompletion();
  for (const chunk of chunks) {
    const problem = mismatch('openai', 'CreateChatCompletionStreamResponse', chunk);
    if (problem !== null) throw new Error(problem);
  }
  return { chunks, final };
}

/** Removes whitespace, because the whitespace between text and tool calls is not specified. */
const plain = (content: string | null): string => (content ?? '').replace(/\s+/g, '');

t.test('returns tool calls as the model wrote them, streamed or not', async (t) => {
  for (const letter of ['W', 'D', 'O', 'P', 'C'] as const) {
    const expected = said(letter);
    const {
      usage,
      choices: [answer],
    } = await whole(letter, { tools });
    t.same(calledIn(answer!.message), expected.calls, `${letter}: calls`);
    t.equal(plain(answer!.message.content), plain(expected.content), `${letter}: content`);
    if (expected.content === '')
      t.equal(answer!.message.content, null, `${letter}: content is null when there are only tool calls`);
    t.equal(answer!.finish_reason, 'tool_calls');
    for (const { arguments: text } of calledIn(answer!.message)) t.type(JSON.parse(text), 'object');

    const { final, chunks } = await streamed(letter, { tools });
    t.same(calledIn(final.choices[0]!.message), expected.calls, `${letter}: streamed calls`);
    t.equal(final.choices[0]!.message.content ?? '', answer!.message.content ?? '', `${letter}: streamed content`);
    t.equal(final.choices[0]!.finish_reason, 'tool_calls');
    t.equal(new Set(chunks.map(({ id }) => id)).size, 1);
    t.equal(chunks.at(-1)!.usage!.completion_tokens, usage!.completion_tokens);
  }
});

t.test('parallel tool calls have indexes and unique ids, and the model responds to their results', async (t) => {
  const { final, chunks } = await streamed('P', { tools });
  const pieces = chunks.flatMap((chunk) => chunk.choices).flatMap((choice) => choice.delta.tool_calls ?? []);
  const indexes = pieces.map(({ index }) => index);
  t.same([...new Set(indexes)], [0, 1]);
  t.same(indexes, [...indexes].sort(), 'the calls are streamed one after the other');
  const openings = pieces.filter(({ id }) => id !== undefined);
  for (const opening of openings) {
    t.match(opening.id, /^call_[0-9A-Za-z]{24}$/);
    t.match(opening, { type: 'function', function: { name: 'get_weather', arguments: '' } });
  }
  t.equal(new Set(openings.map(({ id }) => id)).size, 2);
  t.ok(
    pieces.every((piece) => openings.includes(piece) || Object.keys(piece).sort().join() === 'function,index'),
    'each call has its type and name in only one chunk',
  );

  const { message } = final.choices[0]!;
  const results = message
    .tool_calls!.map((call): Message => ({ role: 'tool', tool_call_id: call.id, content: 'T: 14 C' }))
    .reverse();
  const turn = (...more: Message[]) =>
    client.chat.completions.create({ ...base, tools, messages: [...ask('P'), message, ...more] });
  const answer = (await turn(...results)).choices[0]!;
  t.equal(answer.message.content, said('T').content);
  t.equal(answer.finish_reason, 'stop');
  await t.rejects(turn(results[0]!), {
    status: 422,
    code: 'missing_tool_output',
    param: 'messages[1].tool_calls[0]',
  });
  await t.rejects(turn(...results, { role: 'tool', tool_call_id: 'call_z', content: '' }), {
    status: 422,
    code: 'tool_call_not_found',
    param: 'messages[4].tool_call_id',
  });
});

t.test('applies tool_choice and parallel_tool_calls, even with several choices', async (t) => {
  const named = (name: string) => ({ type: 'function' as const, function: { name } });
  const none = (await whole('W', { tools, tool_choice: 'none' })).choices[0]!;
  t.same(calledIn(none.message), []);
  t.equal(none.finish_reason, 'stop');
  t.equal((await whole('A', { tools, tool_choice: 'auto' })).choices[0]!.message.content, said('A').content);
  t.equal((await whole('A', { tools, tool_choice: 'required' })).choices[0]!.finish_reason, 'tool_calls');
  for (const letter of ['A', 'H', 'Z'] as const) {
    for (const tool_choice of [
      named('get_time'),
      { type: 'allowed_tools' as const, allowed_tools: { mode: 'required' as const, tools: [named('get_time')] } },
    ]) {
      const choice = (await streamed(letter, { tools, tool_choice })).final.choices[0]!;
      t.same(
        calledIn(choice.message).map(({ name }) => name),
        ['get_time'],
        `${letter} ${JSON.stringify(tool_choice)}`,
      );
      t.equal(choice.message.content ?? '', '');
      t.equal(choice.finish_reason, 'tool_calls');
    }
  }
  const allowed = (
    await whole('W', {
      tools,
      tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [named('save_note')] } },
    })
  ).choices[0]!;
  t.same(
    calledIn(allowed.message).map(({ name }) => name),
    ['save_note'],
    'only this tool may be called',
  );
  const single = (await whole('P', { tools, parallel_tool_calls: false })).choices[0]!;
  t.same(calledIn(single.message), said('P').calls.slice(0, 1));
  t.equal(single.finish_reason, 'tool_calls');
  t.equal(
    (await whole('P', { tools, tool_choice: named('get_weather') })).choices[0]!.message.tool_calls?.length,
    1,
    'a named tool is called once',
  );
  const several = await whole('P', { tools, n: 3, seed: 1 });
  t.same(
    several.choices.map(({ message }) => calledIn(message)),
    [said('P').calls, said('P').calls, said('P').calls],
  );
  t.equal(
    new Set(several.choices.flatMap(({ message }) => message.tool_calls!.map(({ id }) => id))).size,
    6,
    'each call has its own id',
  );
});

t.test('a truncated tool call keeps its beginning and ends with finish_reason "length"', async (t) => {
  const cap = { tools, max_completion_tokens: 80 };
  for (const { message, finish_reason } of [
    (await whole('Q', cap)).choices[0]!,
    (await streamed('Q', cap)).final.choices[0]!,
  ]) {
    t.equal(finish_reason, 'length');
    t.equal(calledIn(message).length, 1);
    t.match(calledIn(message)[0]!.arguments, /^\{"path": "a\.txt", "content": "line of/);
  }
  const early = (await whole('Q', { tools, max_completion_tokens: 5 })).choices[0]!;
  t.same([calledIn(early.message), early.finish_reason], [[], 'length'], 'a call truncated before its name is dropped');
  const wanted = (await whole('M', { tools, max_completion_tokens: 200 })).choices[0]!;
  if (wanted.finish_reason === 'tool_calls')
    for (const { arguments: text } of calledIn(wanted.message)) t.type(JSON.parse(text), 'object');
  else t.equal(wanted.finish_reason, 'length');
  t.notMatch(wanted.message.content ?? '', /tool_call/);
});

t.test('runTools of the official client completes the tool loop, streamed or not', async (t) => {
  const asked: unknown[] = [];
  const runnable = [
    {
      type: 'function' as const,
      function: {
        name: 'get_weather',
        description: 'Weather',
        parse: JSON.parse as (text: string) => { location: string },
        parameters: { type: 'object', properties: { location: { type: 'string' } } },
        function: (input: { location: string }) => {
          asked.push(input.location);
          return 'T: 14 C';
        },
      },
    },
  ];
  const unstreamed = client.chat.completions.runTools({ ...base, messages: ask('P'), tools: runnable });
  t.equal(await unstreamed.finalContent(), said('T').content);
  t.same(asked.splice(0), ['Paris', 'Rome']);
  const streaming = client.chat.completions.runTools({ ...base, stream: true, messages: ask('W'), tools: runnable });
  t.equal(await streaming.finalContent(), said('T').content);
  t.same(asked, ['Paris']);
});

const Person = z.object({ name: z.string(), age: z.number().int(), tags: z.array(z.string()) });

t.test('structured output parses with a zod schema, regardless of what the model would write', async (t) => {
  const response_format = zodResponseFormat(Person, 'person');
  const ada = { name: 'Ada', age: 36, tags: ['math', 'engines'] };
  const parsed = await client.chat.completions.parse({ ...base, messages: ask('J'), response_format });
  t.same(parsed.choices[0]!.message.parsed, ada);
  const stream = client.chat.completions.stream({ ...base, messages: ask('J'), response_format });
  t.same((await stream.finalChatCompletion()).choices[0]!.message.parsed, ada);
  t.same(
    JSON.parse((await whole('J', { response_format: { type: 'json_object' } })).choices[0]!.message.content!),
    ada,
  );

  const strict = zodFunction({ name: 'get_weather', parameters: z.object({ location: z.string() }) });
  const called = await client.chat.completions.parse({ ...base, messages: ask('W'), tools: [strict], response_format });
  t.same(called.choices[0]!.message.tool_calls![0]!.function.parsed_arguments, { location: 'Paris' });
  t.equal(called.choices[0]!.finish_reason, 'tool_calls', 'the response format applies to text, not to tool calls');

  for (const letter of ['I', 'F', 'A', 'X'] as const) {
    const { message, finish_reason } = (await whole(letter, { response_format, max_completion_tokens: 300 }))
      .choices[0]!;
    if (finish_reason === 'stop') t.ok(Person.safeParse(JSON.parse(message.content!)).success, letter);
    else t.match([finish_reason, message.content], ['length', /^\{/], letter);
  }
  t.same(
    [...(await server.metrics())].filter(
      ([name, count]) => count > 0 && name.startsWith('monolith_generation_failures_total'),
    ),
    [],
  );

  const cut = (await whole('J', { response_format, max_completion_tokens: 3 })).choices[0]!;
  t.equal(cut.finish_reason, 'length', 'a truncated response need not be valid JSON');
  const stopped = (await whole('J', { response_format, stop: 'age' })).choices[0]!;
  t.equal(stopped.finish_reason, 'stop', 'a response that ends at a stop string need not be valid JSON');
});

t.test('returns reasoning together with text and tool calls', async (t) => {
  type WithReasoning = OpenAI.ChatCompletionMessage & { reasoning_content?: string };
  const effort = { reasoning_effort: 'medium' as const, tools };
  for (const letter of ['H', 'K'] as const) {
    const expected = said(letter);
    const { message, finish_reason } = (await whole(letter, effort)).choices[0]! as {
      message: WithReasoning;
      finish_reason: string;
    };
    t.equal(message.reasoning_content?.trim(), expected.reasoning);
    t.equal(message.content?.trim(), expected.content);
    t.same(calledIn(message), expected.calls);
    t.equal(finish_reason, expected.calls.length > 0 ? 'tool_calls' : 'stop');
    const { chunks, final } = await streamed(letter, effort);
    const deltas = chunks
      .flatMap((chunk) => chunk.choices)
      .map(({ delta }) => delta as { content?: string; reasoning_content?: string });
    t.equal(deltas.map((delta) => delta.reasoning_content ?? '').join(''), message.reasoning_content);
    t.equal(final.choices[0]!.message.content, message.content);
    const firstText = deltas.findIndex((delta) => (delta.content ?? '') !== '');
    t.ok(
      deltas.slice(firstText).every((delta) => delta.reasoning_content === undefined),
      'reasoning comes before text',
    );
  }
  const hidden = await whole('H', { ...effort, ...{ include_reasoning: false } });
  t.notOk('reasoning_content' in hidden.choices[0]!.message);
  t.ok(hidden.usage!.completion_tokens_details!.reasoning_tokens! > 0, 'hidden reasoning tokens are counted');
  // If max_completion_tokens leaves no room for reasoning, the prompt disables it and all tokens go to the answer.
  for (const [max_completion_tokens, finish_reason] of [
    [1, 'length'],
    [2, 'stop'],
  ] as const) {
    const {
      choices: [short],
      usage,
    } = await whole('H', { ...effort, max_completion_tokens });
    t.match(short, { finish_reason, message: { content: said('H').content } }); // the whole answer is a single token
    t.notOk('reasoning_content' in short!.message);
    t.equal(usage!.completion_tokens_details!.reasoning_tokens, 0);
  }
  // Reasoning is cut off early enough to leave a quarter of the tokens for the answer.
  const cut = await whole('H', { ...effort, max_completion_tokens: 8 });
  t.match(cut, {
    choices: [{ finish_reason: 'stop', message: { reasoning_content: 'The user', content: said('H').content } }],
    usage: { completion_tokens: 8, completion_tokens_details: { reasoning_tokens: 4 } },
  });
  const last = await client.chat.completions.create({
    ...base,
    messages: [...ask('A'), { role: 'assistant', content: 'x', ...{ reasoning_content: 'because' } }, ...ask('A')],
  });
  t.equal(
    last.choices[0]!.message.content,
    said('A').content,
    'reasoning_content in an earlier assistant message is accepted',
  );
});

t.test('handles characters and stop strings that are split across tokens', async (t) => {
  const { chunks, final } = await streamed('E');
  t.equal(final.choices[0]!.message.content, said('E').content);
  t.ok(chunks.every((chunk) => !(chunk.choices[0]?.delta.content ?? '').includes('\ufffd')));
  const stopped = await streamed('S', { stop: ['STOP'] });
  t.equal(stopped.final.choices[0]!.message.content, said('S').content.split('STOP')[0]);
  t.equal(stopped.final.choices[0]!.finish_reason, 'stop');
  t.equal((await whole('B')).choices[0]!.message.content, said('B').content, 'markers spelled out as text stay text');
  t.equal((await whole('Z')).choices[0]!.message.content, '', 'an empty response');
  t.equal((await streamed('Z')).final.choices[0]!.finish_reason, 'stop');
});

t.test(
  'accepts malformed tool arguments in the history and rejects images for a model without a vision encoder',
  async (t) => {
    const history = (text: string): Message[] => [
      ...ask('W'),
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'get_weather', arguments: text } }],
      },
      {
        role: 'tool',
        tool_call_id: 'c',
        content: [
          { type: 'text', text: 'T: ' },
          { type: 'text', text: '14 C' },
        ],
      },
    ];
    for (const text of ['', '{', '[1]', '"x"', 'null', '{"a":\ud800}', '{"location": "Par']) {
      const answer = await client.chat.completions.create({ ...base, tools, messages: history(text) });
      t.equal(answer.choices[0]!.message.content, said('T').content, JSON.stringify(text));
    }
    const image: Message = {
      role: 'user',
      content: [
        { type: 'text', text: 'A: see' },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
      ],
    };
    await t.rejects(client.chat.completions.create({ ...base, messages: [image] }), {
      status: 422,
      code: 'model_not_vision',
      param: 'messages[0].content[1]',
    });
  },
);

t.test('no request is left running', async (t) => {
  t.ok(
    await eventually(async () => {
      const metrics = await server.metrics();
      return [...metrics]
        .filter(
          ([name]) => name.startsWith('monolith_sequences_running') || name.startsWith('monolith_requests_waiting'),
        )
        .every(([, value]) => value === 0);
    }),
  );
  const { response } = await client.chat.completions.create({ ...base, messages: ask('A') }).withResponse();
  t.equal(response.headers.get('x-ratelimit-remaining-concurrency'), '98');
});
