// Tests `context_management` of the Messages API with the official client against a real server. The scripted model has
// one token per byte, so text lengths equal token counts.
import { setTimeout as sleep } from 'node:timers/promises';
import Anthropic from '@anthropic-ai/sdk';
import t from 'tap';
import { CLEARED_RESULT } from '../../src/protocol/context/clear-tool-uses.js';
import { publishedAnswers } from '../../src/protocol/openapi/document.js';
import { said, standardScripts, startScripted } from '../support/script-model.js';
import { events } from '../support/wire.js';
import { eventually } from './monolith.js';

type Beta = Anthropic.Beta.Messages.MessageCreateParamsNonStreaming;
type Edits = NonNullable<Beta['context_management']>['edits'];
type Param = Anthropic.Beta.Messages.BetaMessageParam;

t.setTimeout(300_000); // the machine may be busy

const server = await startScripted({ context: 16_384 });
t.teardown(() => server.stop());
const client = new Anthropic({ baseURL: server.url, apiKey: server.key, maxRetries: 0 });
const betas = ['context-management-2025-06-27', 'compact-2026-01-12'];
const model = 'tycho-1.0';
const weather: Anthropic.Beta.BetaTool = { name: 'get_weather', input_schema: { type: 'object', properties: {} } };
const clock: Anthropic.Beta.BetaTool = { name: 'get_time', input_schema: { type: 'object', properties: {} } };
const summary = said('A').content;

const post = async (path: string, body: object): Promise<{ status: number; body: Failure }> => {
  const response = await fetch(`${server.url}/v1${path}`, {
    method: 'POST',
    body: JSON.stringify({ model, max_tokens: 100, messages: [{ role: 'user', content: 'A: hi' }], ...body }),
    headers: { 'x-api-key': server.key, 'content-type': 'application/json' },
  });
  return { status: response.status, body: (await response.json()) as Failure };
};
interface Failure {
  error?: { code: string; param: string | null; message: string };
}

/** A turn of an agent: calls, each with a result of 400 characters. */
const uses = (count: number, { name = 'get_weather', from = 0, input = {} as object } = {}): Param[] =>
  Array.from({ length: count }, (_, at): Param[] => [
    { role: 'assistant', content: [{ type: 'tool_use', id: `toolu_${from + at}`, name, input }] },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: `toolu_${from + at}`, content: `T: ${from + at} ${'x'.repeat(396)}` },
      ],
    },
  ]).flat();
/** Returns the conversation with the results of the calls `ids` replaced by the placeholder. */
const withoutResults = (messages: readonly Param[], ids: readonly number[]): Param[] =>
  messages.map((message): Param => {
    if (message.role !== 'user' || typeof message.content === 'string') return message;
    return {
      ...message,
      content: message.content.map((block) =>
        block.type === 'tool_result' && ids.some((id) => block.tool_use_id === `toolu_${id}`)
          ? { ...block, content: CLEARED_RESULT }
          : block,
      ),
    };
  });

const ask: Param = { role: 'user', content: 'A: weather?' };
const body = (messages: Param[], edits?: Edits): Beta => ({
  model,
  max_tokens: 60,
  messages,
  tools: [weather, clock],
  betas,
  ...(edits === undefined ? {} : { context_management: { edits } }),
});
const create = (messages: Param[], edits?: Edits) => client.beta.messages.create(body(messages, edits));
const count = async (messages: Param[], edits?: Edits) => {
  const { max_tokens: _, ...rest } = body(messages, edits);
  return client.beta.messages.countTokens(rest);
};
const tokens = async (messages: Param[]) => (await count(messages)).input_tokens;
const promptOf = ({ usage }: Anthropic.Beta.BetaMessage) => usage.input_tokens + (usage.cache_read_input_tokens ?? 0);

t.test('old tool results are replaced before the prompt is built, and the response reports it', async (t) => {
  const messages = [ask, ...uses(6)];
  const edits: Edits = [
    {
      type: 'clear_tool_uses_20250919',
      trigger: { type: 'tool_uses', value: 4 },
      keep: { type: 'tool_uses', value: 2 },
    },
  ];
  const original = await tokens(messages);
  const expected = await tokens(withoutResults(messages, [0, 1, 2, 3]));
  t.ok(expected < original - 4 * 300);
  const applied = [
    { type: 'clear_tool_uses_20250919', cleared_tool_uses: 4, cleared_input_tokens: original - expected },
  ];
  const whole = await create(messages, edits);
  t.same(whole.context_management, { applied_edits: applied });
  t.equal(promptOf(whole), expected);
  const streamed = await client.beta.messages.stream(body(messages, edits)).finalMessage();
  t.same(streamed.context_management, { applied_edits: applied });
  t.same(streamed.content, whole.content);
  t.same(await count(messages, edits), {
    input_tokens: expected,
    context_management: { original_input_tokens: original },
  });

  t.same((await create(messages)).context_management, undefined, 'a response without edits does not mention them');
  const few = [ask, ...uses(4)];
  t.same((await create(few, edits)).context_management, { applied_edits: [] }, 'the trigger has to be exceeded');
  t.same(await count(few, edits), {
    input_tokens: await tokens(few),
    context_management: { original_input_tokens: await tokens(few) },
  });
});

t.test('the default trigger is a number of input tokens, and the context window is a trigger too', async (t) => {
  const messages = [ask, ...uses(8)];
  const clear: Edits = [{ type: 'clear_tool_uses_20250919' }];
  t.same((await create(messages, clear)).context_management, { applied_edits: [] });
  const long = [ask, ...uses(45)];
  t.equal((await post('/messages', { ...body(long), betas: undefined })).status, 400, 'too long without the edit');
  const { context_management: report } = await create(long, clear);
  t.match(report, { applied_edits: [{ cleared_tool_uses: 42 }] });
  const original = await tokens(messages);
  const at = (value: number): Edits => [{ type: 'clear_tool_uses_20250919', trigger: { type: 'input_tokens', value } }];
  t.match((await create(messages, at(original))).context_management, { applied_edits: [] });
  t.match((await create(messages, at(original - 1))).context_management, {
    applied_edits: [{ cleared_tool_uses: 5 }],
  });
});

t.test('excluded tools keep their results, and inputs are cleared on request', async (t) => {
  const input = { location: 'y'.repeat(200) };
  const messages = [
    ask,
    ...uses(2, { input }),
    ...uses(2, { name: 'get_time', from: 2, input }),
    ...uses(2, { from: 4, input }),
  ];
  const clear = {
    type: 'clear_tool_uses_20250919',
    trigger: { type: 'tool_uses', value: 1 },
    keep: { type: 'tool_uses', value: 1 },
  } as const;
  const original = await tokens(messages);
  const results = await count(messages, [{ ...clear, exclude_tools: ['get_time'] }]);
  t.equal(results.input_tokens, await tokens(withoutResults(messages, [0, 1, 4])));
  const saved = async (edit: object) => original - (await count(messages, [{ ...clear, ...edit }])).input_tokens;
  const perInput = `{"location": "${input.location}"}`.length - '{}'.length;
  t.equal((await saved({ clear_tool_inputs: true })) - (await saved({})), 5 * perInput);
  t.equal((await saved({ clear_tool_inputs: ['get_time'] })) - (await saved({})), 2 * perInput);
  t.equal(await saved({ clear_tool_inputs: false }), await saved({ clear_tool_inputs: [] }));
});

t.test('clear_at_least keeps the cleared part unchanged until a further group can be cleared', async (t) => {
  const edits = (value: number): Edits => [
    {
      type: 'clear_tool_uses_20250919',
      trigger: { type: 'input_tokens', value: 1_000 },
      keep: { type: 'tool_uses', value: 1 },
      clear_at_least: { type: 'input_tokens', value },
    },
  ];
  const cleared: number[] = [];
  for (let length = 3; length <= 10; length++) {
    const messages = [ask, ...uses(length)];
    const answer = await create(messages, edits(1_000));
    const [edit] = answer.context_management?.applied_edits ?? [];
    cleared.push(edit?.type === 'clear_tool_uses_20250919' ? edit.cleared_tool_uses : 0);
    if (edit !== undefined) t.ok(edit.cleared_input_tokens >= 1_000);
  }
  t.same(cleared, [0, 3, 3, 3, 6, 6, 6, 9], 'groups of three results');
  t.same((await create([ask, ...uses(6)], edits(10_000))).context_management, { applied_edits: [] });

  const grown = [ask, ...uses(9)];
  await create(grown, edits(1_000));
  const next = await create([...grown, ...uses(1, { from: 9 })].slice(0, -2), edits(1_000));
  t.ok((next.usage.cache_read_input_tokens ?? 0) > promptOf(next) - 600, 'the prefix cache is used');
});

t.test('clear_thinking keeps the thinking of the latest turns', async (t) => {
  const thinking = { type: 'enabled', budget_tokens: 1_024 } as const;
  const messages: Param[] = [];
  for (const text of ['H: one', 'H: two', 'H: three']) {
    messages.push({ role: 'user', content: text });
    const answer = await client.beta.messages.create({ model, max_tokens: 2_000, thinking, messages });
    t.equal(answer.content[0]?.type, 'thinking');
    messages.push({ role: 'assistant', content: answer.content });
  }
  messages.push({ role: 'user', content: 'A: four' });
  const asked = (edits?: Edits): Beta => ({ ...body(messages, edits), max_tokens: 2_000, thinking });
  const counted = async (edits?: Edits) => {
    const { max_tokens: _, ...rest } = asked(edits);
    return client.beta.messages.countTokens(rest);
  };
  const keep = (value: number): Edits => [{ type: 'clear_thinking_20251015', keep: { type: 'thinking_turns', value } }];
  const all: Edits = [{ type: 'clear_thinking_20251015', keep: 'all' }];
  const none = (await counted()).input_tokens;
  const everything = (await counted(all)).input_tokens;
  const one = (everything - none) / 3;
  // The reasoning of earlier turns has as many prompt tokens as when the model generated it, because its token IDs are
  // replayed.
  t.ok(one > standardScripts.H.indexOf('</think>'), 'keep: all shows the thinking of earlier turns');
  t.same((await client.beta.messages.create(asked(all))).context_management, { applied_edits: [] });
  for (const kept of [1, 2]) {
    const answer = await client.beta.messages.create(asked(keep(kept)));
    t.same(answer.context_management, {
      applied_edits: [
        {
          type: 'clear_thinking_20251015',
          cleared_thinking_turns: 3 - kept,
          cleared_input_tokens: (3 - kept) * one,
        },
      ],
    });
    t.equal(promptOf(answer), none + kept * one);
    t.same(await counted(keep(kept)), {
      input_tokens: none + kept * one,
      context_management: { original_input_tokens: everything },
    });
  }
  t.same((await client.beta.messages.create(asked(keep(3)))).context_management, { applied_edits: [] });
  const byDefault = await client.beta.messages.create(asked([{ type: 'clear_thinking_20251015' }]));
  t.match(byDefault.context_management, { applied_edits: [{ cleared_thinking_turns: 2 }] });
  const both = await client.beta.messages.create({
    ...asked([
      { type: 'clear_thinking_20251015' },
      {
        type: 'clear_tool_uses_20250919',
        trigger: { type: 'tool_uses', value: 1 },
        keep: { type: 'tool_uses', value: 0 },
      },
    ]),
    messages: [...messages.slice(0, -1), ask, ...uses(2)],
  });
  t.match(both.context_management, { applied_edits: [{ cleared_thinking_turns: 2 }, { cleared_tool_uses: 2 }] });
});

const story: Param[] = [
  { role: 'user', content: `A: once ${'upon '.repeat(150)}` },
  { role: 'assistant', content: `a time ${'there '.repeat(150)}` },
  { role: 'user', content: 'A: and then?' },
];
const compactAt = (value: number, more: object = {}): Edits => [
  { type: 'compact_20260112', trigger: { type: 'input_tokens', value }, ...more },
];
const content = `${summary}\n\nThe user's last message, in full:\nA: and then?`;

t.test('a conversation above the trigger is compacted, and the response starts with the summary', async (t) => {
  const answer = await create(story, compactAt(1_000));
  t.same(answer.content[0], { type: 'compaction', content, encrypted_content: null });
  t.match(answer.content[1], { type: 'text', text: summary });
  t.equal(answer.content.length, 2);
  t.equal(answer.stop_reason, 'end_turn');
  t.same(answer.context_management, { applied_edits: [] });
  const { iterations } = answer.usage;
  t.match(iterations, [
    { type: 'compaction', output_tokens: Number },
    { type: 'message', model, output_tokens: answer.usage.output_tokens },
  ]);
  const [first] = iterations ?? [];
  t.ok((first?.input_tokens ?? 0) > 1_500, 'the summary was written from the whole conversation');
  const prompt: Param[] = [{ role: 'user', content: `Summary of the conversation so far: ${content}` }];
  t.equal(promptOf(answer), await tokens(prompt));

  const next = [...story, { role: 'assistant' as const, content: answer.content }, ask];
  const after: Param[] = [...prompt, { role: 'assistant', content: summary }, ask];
  t.equal(await tokens(next), await tokens(after), 'everything before the block is dropped');
  t.same(await count(next, compactAt(1_000)), {
    input_tokens: await tokens(after),
    context_management: { original_input_tokens: await tokens(after) },
  });
  t.not((await create(next, compactAt(1_000))).content[0]?.type, 'compaction', 'the summary is below the trigger');

  const size = await tokens(story);
  t.not((await create(story, compactAt(size + 1))).content[0]?.type, 'compaction');
  t.equal((await create(story, compactAt(size))).content[0]?.type, 'compaction');
  t.not((await create([story[0]!], compactAt(100))).content[0]?.type, 'compaction', 'nothing precedes the message');
  t.same(await count(story, compactAt(1_000)), {
    input_tokens: size,
    context_management: { original_input_tokens: size },
  });
});

t.test('compaction keeps the system prompt, and applies if the prompt does not fit', async (t) => {
  const system = `Be kind. ${'Really. '.repeat(20)}`;
  const answer = await client.beta.messages.create({ ...body(story, compactAt(1_000)), system });
  const prompt: Param[] = [{ role: 'user', content: `Summary of the conversation so far: ${content}` }];
  const { input_tokens: expected } = await client.beta.messages.countTokens({
    model,
    messages: prompt,
    system,
    tools: [weather, clock],
  });
  t.equal(promptOf(answer), expected);
  t.equal(answer.content[0]?.type, 'compaction');

  const long: Param[] = Array.from({ length: 40 }, (_, at) => ({
    role: at % 2 === 0 ? 'user' : 'assistant',
    content: 'word '.repeat(100),
  }));
  const fitted = await create([...long, ask], [{ type: 'compact_20260112' }]);
  t.equal(fitted.content[0]?.type, 'compaction');
});

t.test('streamed, the block comes first, and the client reassembles the same message', async (t) => {
  const summaries: string[] = [];
  const events: string[] = [];
  const stream = client.beta.messages.stream(body(story, compactAt(1_000)));
  stream.on('compaction', (text) => summaries.push(text));
  stream.on('streamEvent', ({ type }) => events.push(type));
  const streamed = await stream.finalMessage();
  const whole = await create(story, compactAt(1_000));
  t.same(summaries, [content]);
  t.same(events.slice(0, 4), ['message_start', 'content_block_start', 'content_block_delta', 'content_block_stop']);
  t.same(streamed.content, whole.content);
  t.equal(streamed.usage.iterations?.length, 2);
});

t.test('with pause_after_compaction, the response ends after the summary and can be continued', async (t) => {
  const edits = compactAt(1_000, { pause_after_compaction: true, instructions: 'Keep names.' });
  for (const answer of [
    await create(story, edits),
    await client.beta.messages.stream(body(story, edits)).finalMessage(),
  ]) {
    t.equal(answer.stop_reason, 'compaction');
    t.same(answer.content, [{ type: 'compaction', content, encrypted_content: null }]);
    t.match(answer.usage, { input_tokens: 0, output_tokens: 0, iterations: [{ type: 'compaction' }] });
    t.equal(answer.usage.iterations?.length, 1);
    const next = await create([...story, { role: 'assistant', content: answer.content }], edits);
    t.equal(next.stop_reason, 'end_turn');
    t.match(next.content, [{ type: 'text', text: summary }]);
    const kept = await create([{ role: 'assistant', content: answer.content }, ...story.slice(-2)], compactAt(5_000));
    t.equal(kept.stop_reason, 'end_turn', 'messages may be kept after the block');
  }
});

t.test('responses and events match the published schemas', async (t) => {
  const { betas: _, ...sent } = body(
    [ask, ...uses(4), ask],
    [{ type: 'clear_tool_uses_20250919', trigger: { type: 'tool_uses', value: 1 } }, ...(compactAt(1_000) ?? [])],
  );
  for (const pause of [false, true]) {
    const edits = { edits: [...(sent.context_management?.edits ?? [])] };
    Object.assign(edits.edits[1] ?? {}, { pause_after_compaction: pause });
    const request = { ...sent, context_management: edits };
    const whole = await post('/messages', request);
    t.same(publishedAnswers.Message.safeParse(whole.body).error, undefined);
    const response = await fetch(`${server.url}/v1/messages`, {
      method: 'POST',
      body: JSON.stringify({ ...request, stream: true }),
      headers: { 'x-api-key': server.key, 'content-type': 'application/json' },
    });
    for (const { data } of await events(response))
      t.same(publishedAnswers.MessageEvent.safeParse(JSON.parse(data)).error, undefined, data);
  }
  t.same(publishedAnswers.TokenCount.safeParse((await post('/messages/count_tokens', sent)).body).error, undefined);
});

t.test('a refused summary is an error with its own status, streamed or not', async (t) => {
  const sent = { messages: story, context_management: { edits: compactAt(100, { instructions: 'x'.repeat(20_000) }) } };
  for (const stream of [false, true])
    t.match(await post('/messages', { ...sent, stream }), {
      status: 400,
      body: { error: { code: 'context_length_exceeded', param: 'messages' } },
    });
});

t.test('while the summary is written, the stream is kept alive, and a disconnect stops it', async (t) => {
  const slow = await startScripted({
    env: { MONOLITH_HTTP_KEEPALIVE_MS: '100', MONOLITH_ENGINE_MAX_BATCH_TOKENS: '1' },
  });
  t.teardown(() => slow.stop());
  const stream = (messages: Param[], signal: AbortSignal | null = null): Promise<Response> => {
    const { betas: _, ...sent } = body(messages, compactAt(1_000, { pause_after_compaction: true }));
    return fetch(`${slow.url}/v1/messages`, {
      method: 'POST',
      signal,
      body: JSON.stringify({ ...sent, stream: true }),
      headers: { 'x-api-key': slow.key, 'content-type': 'application/json' },
    });
  };
  const [first, ...more] = (await events(await stream(story))).map(({ event }) => event);
  t.equal(first, 'ping');
  t.equal(more.at(-1), 'message_stop');

  const leaving = new AbortController();
  const long: Param[] = [{ role: 'user', content: 'x '.repeat(50_000) }, { role: 'assistant', content: 'y' }, ask];
  const response = await stream(long, leaving.signal);
  // All model names of the file share one engine, whose metrics are labeled with the first name.
  const metric = async (name: string) => (await slow.metrics()).get(`${name}{model="hal-1.0"}`);
  t.ok(await eventually(async () => (await metric('monolith_sequences_running')) === 1));
  leaving.abort();
  await t.rejects(response.text());
  t.ok(
    await eventually(async () => {
      const before = await metric('monolith_steps_total');
      await sleep(100);
      return before !== undefined && before === (await metric('monolith_steps_total'));
    }, 1_500),
    'the running part and all following parts are cancelled',
  );
});

t.test('the model description lists the edits', async (t) => {
  const { capabilities } = await client.beta.models.retrieve(model);
  const supported = { supported: true };
  t.same(capabilities?.context_management, {
    supported: true,
    clear_thinking_20251015: supported,
    clear_tool_uses_20250919: supported,
    compact_20260112: supported,
  });
});

t.test('a compaction in a tool loop replaces the calls', async (t) => {
  const answer = await create([ask, ...uses(4)], compactAt(1_000));
  t.equal(answer.content[0]?.type, 'compaction');
  const next = [ask, ...uses(4), { role: 'assistant' as const, content: answer.content }, ask];
  t.equal((await create(next)).stop_reason, 'end_turn');

  const paused = compactAt(1_000, { pause_after_compaction: true });
  const first = await create([ask, ...uses(4)], paused);
  const second = await create([{ role: 'assistant', content: first.content }, ...uses(4)], paused);
  t.match(first.content, [{ type: 'compaction', content: /A: weather\?$/ }]);
  t.same(second.content, first.content, 'a second compaction repeats the same user message');
});

t.test('invalid edits are refused with the name of the field', async (t) => {
  const clear = { type: 'clear_tool_uses_20250919' };
  const edits = (...list: object[]) => ({ context_management: { edits: list } });
  const path = 'context_management.edits';
  const cases: [sent: object, status: number, code: string, param: string][] = [
    [{ context_management: 'auto' }, 400, 'invalid_type', 'context_management'],
    [{ context_management: { edits: {} } }, 400, 'invalid_type', path],
    [edits({ type: 'clear_images_20300101' }), 400, 'unknown_variant', `${path}[0].type`],
    [edits({}), 400, 'missing_required_parameter', `${path}[0].type`],
    [edits({ ...clear, trigger: { type: 'words', value: 1 } }), 400, 'unknown_variant', `${path}[0].trigger.type`],
    [
      edits({ ...clear, trigger: { type: 'tool_uses', value: 0 } }),
      422,
      'value_out_of_range',
      `${path}[0].trigger.value`,
    ],
    [edits({ ...clear, keep: { type: 'tool_uses' } }), 400, 'missing_required_parameter', `${path}[0].keep.value`],
    [edits({ ...clear, exclude_tools: 'f' }), 400, 'invalid_type', `${path}[0].exclude_tools`],
    [edits({ ...clear, clear_tool_inputs: 'f' }), 400, 'invalid_type', `${path}[0].clear_tool_inputs`],
    [edits(clear, clear), 422, 'invalid_value', `${path}[1]`],
    [edits(clear, { type: 'clear_thinking_20251015' }), 422, 'invalid_value', `${path}[1]`],
    [edits({ type: 'clear_thinking_20251015' }), 422, 'conflicting_parameters', `${path}[0]`],
    [
      edits({ type: 'clear_thinking_20251015', keep: { type: 'thinking_turns', value: 0 } }),
      422,
      'value_out_of_range',
      `${path}[0].keep.value`,
    ],
    [
      edits({ type: 'compact_20260112', trigger: { type: 'tool_uses', value: 9 } }),
      400,
      'unknown_variant',
      `${path}[0].trigger.type`,
    ],
    [
      edits({ type: 'compact_20260112', pause_after_compaction: 1 }),
      400,
      'invalid_type',
      `${path}[0].pause_after_compaction`,
    ],
    [{ context_management: { edits: Array.from({ length: 17 }, () => clear) } }, 422, 'array_too_long', path],
  ];
  for (const [sent, status, code, param] of cases) {
    for (const route of ['/messages', '/messages/count_tokens'])
      t.match(
        await post(route, sent),
        { status, body: { error: { code, param } } },
        `${route} ${JSON.stringify(sent)}`,
      );
  }
  t.equal((await post('/messages', edits({ type: 'clear_thinking_20251015', keep: 'all' }))).status, 200);
  t.equal((await post('/messages', { context_management: {} })).status, 200);
  t.equal((await post('/messages', { context_management: null })).status, 200);
});
