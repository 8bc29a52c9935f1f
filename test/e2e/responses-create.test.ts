// Tests creating responses with the unmodified official client against a real server with scripted models: sections 1
// to 5 of the responses contract, and chaining.
import OpenAI from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import type {
  Response,
  ResponseCreateParamsNonStreaming,
  ResponseInputItem,
} from 'openai/resources/responses/responses';
import sharp from 'sharp';
import t from 'tap';
import { z } from 'zod';
import { checkStream, textOf, type Event, type Item } from '../protocol/responses-stream.js';
import { said, standardScripts, startScripted } from '../support/script-model.js';
import { eventually } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const server = await startScripted({
  scripts: {
    ...standardScripts,
    N: ['<tool_call>', '\n{"name": "weather__get", "arg', 'uments": {"location": "Rome"}', '}\n', '</tool_call>'],
  },
  context: 4_096,
  env: { MONOLITH_MODELS: JSON.stringify({ 'tycho-1.0': { image_input: 'note' } }) },
});
t.teardown(() => server.stop());
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });

const weather = {
  type: 'function' as const,
  name: 'get_weather',
  description: 'Weather',
  parameters: { type: 'object', properties: { location: { type: 'string' } } },
  strict: false,
};
const writeFile = {
  type: 'function' as const,
  name: 'write_file',
  parameters: { type: 'object', properties: {} },
  strict: false,
};
const ask = (letter: string) => `${letter}: please`;
const create = (letter: string, more: Partial<ResponseCreateParamsNonStreaming> & Record<string, unknown> = {}) =>
  client.responses.create({ model: 'clarke-1.0', input: ask(letter), reasoning: { effort: 'none' }, ...more });
const items = (response: Response) => response.output as unknown as Item[];

interface Raw {
  status: number;
  headers: Headers;
  events: Event[];
  body: Record<string, unknown> | null;
  text: string;
}

/** Sends a request without the client library and returns the raw response. */
async function raw(body: object, headers: Record<string, string> = {}): Promise<Raw> {
  const response = await fetch(`${server.url}/v1/responses`, {
    method: 'POST',
    body: JSON.stringify({ model: 'clarke-1.0', reasoning: { effort: 'none' }, ...body }),
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json', ...headers },
  });
  const text = await response.text();
  const isStream = response.headers.get('content-type')!.startsWith('text/event-stream');
  const events: Event[] = [];
  if (isStream) {
    const frames = text.split('\n\n').filter((frame) => frame !== '' && !frame.startsWith(':'));
    t.equal(frames.pop(), 'data: [DONE]');
    for (const frame of frames) {
      const [name, data, ...rest] = frame.split('\n');
      t.same(rest, []);
      const event = JSON.parse(data!.slice('data: '.length)) as Event;
      t.equal(name, `event: ${event.type}`);
      events.push(event);
    }
  }
  return {
    status: response.status,
    headers: response.headers,
    events,
    body: isStream ? null : (JSON.parse(text) as Record<string, unknown>),
    text,
  };
}

t.test('a response that is not streamed has every field of the resource', async (t) => {
  const { data, response } = await create('A', { metadata: { k: 'v' }, user: 'u', ...{ made_up: 1 } }).withResponse();
  t.equal(data.output_text, said('A').content);
  t.match(data, {
    id: /^resp_[0-9a-f]{48}$/,
    object: 'response',
    status: 'completed',
    error: null,
    incomplete_details: null,
    model: 'clarke-1.0',
    instructions: null,
    previous_response_id: null,
    parallel_tool_calls: true,
    tool_choice: 'auto',
    tools: [],
    temperature: 1,
    top_p: 1,
    truncation: 'disabled',
    max_output_tokens: null,
    metadata: { k: 'v' },
    user: 'u',
    store: true,
    background: false,
    service_tier: 'default',
    reasoning: { effort: 'none', summary: null },
    output: [
      {
        id: /^msg_/,
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', annotations: [], logprobs: [] }],
      },
    ],
    usage: {
      output_tokens: standardScripts.A.length,
      output_tokens_details: { reasoning_tokens: 0 },
      input_tokens_details: { cache_write_tokens: 0 },
    },
  });
  t.equal(data.usage!.total_tokens, data.usage!.input_tokens + data.usage!.output_tokens);
  t.ok(Math.abs(data.created_at - Date.now() / 1000) < 60);
  t.equal(response.headers.get('x-ignored-parameters'), 'made_up');
  t.ok(response.headers.get('x-ratelimit-remaining-tokens'));
});

t.test('a streamed response follows the event rules and has the same output as an unstreamed one', async (t) => {
  const tools = [weather];
  for (const letter of ['A', 'C', 'D', 'E', 'H', 'K', 'O', 'P', 'Z']) {
    const effort = { reasoning: { effort: 'medium' as const } };
    const body = {
      input: ask(letter),
      ...effort,
      tools: said(letter as 'A')
        .calls.slice(0, 1)
        .map(({ name }) => ({ type: 'function', name })),
    };
    const { events, headers } = await raw({ ...body, stream: true });
    t.match(headers.get('content-type'), 'text/event-stream; charset=utf-8');
    const streamed = checkStream(events, { reasoning: 'response.reasoning' });
    const whole = (await raw(body)).body as unknown as typeof streamed;
    t.same(
      whole.output.map(({ type, status }) => [type, status]),
      streamed.output.map(({ type, status }) => [type, status]),
      letter,
    );
    t.same(whole.output.map(textOf), streamed.output.map(textOf), letter);
    const expected = said(letter as 'A');
    const of = (type: string) => streamed.output.filter((item) => item.type === type);
    t.equal(of('reasoning').map(textOf).join('').trim(), expected.reasoning, letter);
    if (expected.calls.length === 0) t.equal(of('message').map(textOf).join('').trim(), expected.content, letter);
    else t.equal(of('function_call')[0]?.['name'], expected.calls[0]!.name, letter);
    for (const call of of('function_call')) t.equal(typeof JSON.parse(textOf(call)), 'object', letter);
  }
  const stream = client.responses.stream({
    model: 'clarke-1.0',
    input: ask('K'),
    reasoning: { effort: 'medium' },
    tools,
  });
  const seen: string[] = [];
  stream.on('event', ({ type }) => seen.push(type));
  const final = await stream.finalResponse();
  t.equal(final.output_text, said('K').content);
  t.same(
    final.output.map(({ type }) => type),
    ['reasoning', 'message', 'function_call'],
  );
  t.match(final.output[2], { parsed_arguments: null, name: 'get_weather', call_id: /^call_/ });
  t.ok(seen.includes('response.reasoning_text.delta'), 'the client receives the OpenAI event names');
});

t.test('reasoning is sent in two event dialects, as a summary, and encrypted for clients to send back', async (t) => {
  const body = { input: ask('H'), reasoning: { effort: 'low' }, stream: true };
  const names = async (headers: Record<string, string>) =>
    new Set((await raw(body, headers)).events.map(({ type }) => type));
  t.ok((await names({ 'user-agent': 'curl/8' })).has('response.reasoning.delta'));
  t.ok((await names({ 'user-agent': 'AsyncOpenAI/Python 2' })).has('response.reasoning_text.delta'));
  t.ok((await names({ 'x-event-dialect': 'openai' })).has('response.reasoning_text.delta'));
  t.match(await raw(body, { 'x-event-dialect': 'klingon' }), {
    status: 400,
    body: { error: { code: 'invalid_header', param: 'x-event-dialect' } },
  });

  const { events } = await raw({ ...body, reasoning: { effort: 'low', summary: 'auto' } });
  const summarized = checkStream(events, { reasoning: 'response.reasoning_summary_text' });
  t.match(summarized.output[0], {
    type: 'reasoning',
    summary: [{ type: 'summary_text', text: said('H').reasoning }],
  });
  t.notOk('content' in summarized.output[0]!);
  t.match(summarized, { reasoning: { effort: 'low', summary: 'auto' } });

  const first = await create('K', {
    store: false,
    reasoning: { effort: 'low' },
    include: ['reasoning.encrypted_content'],
    tools: [weather],
  });
  const [thought, , call] = first.output;
  t.match(thought, { type: 'reasoning', encrypted_content: /^enc[12]\./ });
  t.ok(first.usage!.output_tokens_details.reasoning_tokens > 0);
  const history = (sealed: string): ResponseInputItem[] => [
    { role: 'user', content: ask('K') },
    { ...(thought as object), encrypted_content: sealed } as ResponseInputItem,
    call as ResponseInputItem,
    { type: 'function_call_output', call_id: (call as { call_id: string }).call_id, output: 'T: 14 C' },
  ];
  const sealed = (thought as { encrypted_content: string }).encrypted_content;
  t.equal((await create('', { input: history(sealed), tools: [weather] })).output_text, said('T').content);
  const at = sealed.length - 10;
  const altered = sealed.slice(0, at) + (sealed[at] === 'A' ? 'B' : 'A') + sealed.slice(at + 1);
  const read = await client.responses
    .create({ model: 'tycho-1.0', input: history(altered), tools: [weather] })
    .withResponse();
  t.equal(read.response.headers.get('x-ignored-content'), 'input[1]', 'an altered item is left out');
  t.equal(read.data.output_text, said('T').content);
});

t.test('parse() of the client receives structured output that matches its schema', async (t) => {
  const person = z.object({ name: z.string(), age: z.number(), tags: z.array(z.string()) });
  const text = { format: zodTextFormat(person, 'person') };
  const parsed = await client.responses.parse({
    model: 'clarke-1.0',
    input: ask('J'),
    reasoning: { effort: 'none' },
    text,
  });
  t.same(parsed.output_parsed, { name: 'Ada', age: 36, tags: ['math', 'engines'] });
  t.match(parsed.text!.format, {
    type: 'json_schema',
    name: 'person',
    strict: true,
    description: null,
    schema: { type: 'object' },
  });

  const { events } = await raw({ input: ask('I'), text, max_output_tokens: 300, stream: true });
  const ended = checkStream(events, { reasoning: 'response.reasoning' });
  const said = ended.output.flatMap((item) => (item.type === 'message' ? item.content : []));
  if (ended.status === 'completed')
    t.ok(
      person.safeParse(JSON.parse((said[0] as { text: string }).text)).success,
      'the schema is enforced even if the model prefers other output',
    );
  else t.equal(ended.status, 'incomplete');
});

t.test('tool outputs can be sent with the full history or with previous_response_id', async (t) => {
  for (const stateless of [true, false]) {
    const first = await create('P', { tools: [weather], store: !stateless });
    const calls = first.output.flatMap((item) => (item.type === 'function_call' ? [item] : []));
    t.ok(calls.length > 0);
    t.equal(new Set(calls.map(({ call_id }) => call_id)).size, calls.length);
    const outputs = calls.map(({ call_id }) => ({ type: 'function_call_output' as const, call_id, output: 'T: 14 C' }));
    const second = await create(
      '',
      stateless
        ? {
            input: [{ role: 'user', content: ask('P') }, ...(first.output as ResponseInputItem[]), ...outputs],
            tools: [weather],
            store: false,
          }
        : { input: outputs, previous_response_id: first.id, tools: [weather] },
    );
    t.equal(second.output_text, said('T').content, stateless ? 'stateless' : 'stored');
    t.ok(second.usage!.input_tokens_details.cached_tokens > 0, 'the first request is in the prefix cache');
    t.equal(second.previous_response_id, stateless ? null : first.id);
    if (stateless) continue;
    await t.rejects(create('', { previous_response_id: first.id, input: 'go on' }), {
      status: 422,
      code: 'missing_tool_output',
    });
    await t.rejects(
      create('', { previous_response_id: first.id, input: [...outputs, { ...outputs[0]!, call_id: 'call_9' }] }),
      { status: 422, code: 'tool_call_not_found', param: `input[${outputs.length}].call_id` },
    );
  }
  t.equal(
    items(await create('P', { tools: [weather], parallel_tool_calls: false })).filter(
      ({ type }) => type === 'function_call',
    ).length,
    1,
  );
});

t.test('tool_choice restricts which tools the model may call', async (t) => {
  const two = [weather, writeFile];
  t.notOk(items(await create('W', { tools: two, tool_choice: 'none' })).some(({ type }) => type === 'function_call'));
  for (const tool_choice of [
    'required',
    { type: 'function', name: 'write_file' },
    { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'write_file' }] },
  ] as const) {
    const response = await create('A', { tools: two, tool_choice: tool_choice as never, max_output_tokens: 60 });
    t.equal(response.output[0]!.type, 'function_call');
    if (tool_choice !== 'required') t.equal((response.output[0] as { name: string }).name, 'write_file');
    t.same(response.tool_choice, tool_choice);
  }
  await t.rejects(create('A', { tool_choice: 'required' }), { status: 422, code: 'conflicting_parameters' });
});

t.test(
  'tool namespaces of coding agents are supported, and unsupported tools are listed in x-ignored-tools',
  async (t) => {
    const namespace = {
      type: 'namespace',
      name: 'weather',
      description: 'd',
      tools: [
        { type: 'function', name: 'get', parameters: null },
        { type: 'mcp', server_label: 'c' },
      ],
    };
    const { body, headers } = await raw({
      input: ask('N'),
      tools: [namespace, { type: 'web_search' }, { type: 'image_generation' }],
    });
    t.match(body, {
      output: [{ type: 'function_call', name: 'get', namespace: 'weather', status: 'completed' }],
      tools: [{ type: 'function', name: 'get', namespace: 'weather' }],
    });
    t.equal((body!['tools'] as unknown[]).length, 1);
    t.equal(headers.get('x-ignored-tools'), 'mcp,web_search,image_generation');
    const [call] = body!['output'] as Item[];
    const second = await raw({
      input: [
        { role: 'user', content: ask('N') },
        call,
        { type: 'function_call_output', call_id: call!['call_id'], output: 'T: 14 C' },
      ],
      tools: [namespace],
    });
    t.equal(textOf((second.body!['output'] as Item[])[0]!), said('T').content);
  },
);

t.test('a response cut at max_output_tokens has an incomplete last item and states the reason', async (t) => {
  const cases: [letter: string, type: string, more: object][] = [
    ['L', 'message', { max_output_tokens: 12 }],
    ['Q', 'function_call', { max_output_tokens: 42, tools: [writeFile] }],
    // a reasoning effort reserves a quarter of the tokens for the output
    ['R', 'message', { max_output_tokens: 10, reasoning: { effort: 'max' } }],
  ];
  for (const [letter, type, more] of cases) {
    const { events } = await raw({ input: ask(letter), ...more, stream: true });
    const response = checkStream(events, { reasoning: 'response.reasoning' });
    t.match(
      response,
      { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' }, completed_at: null },
      letter,
    );
    t.match(response.output.at(-1), { type, status: 'incomplete' }, letter);
    const whole = await raw({ input: ask(letter), ...more });
    t.match(
      whole.body,
      { status: 'incomplete', output: response.output.map(({ type, status }) => ({ type, status })) },
      letter,
    );
  }
});

t.test('log probabilities are returned when requested', async (t) => {
  for (const more of [{ top_logprobs: 2 }, { include: ['message.output_text.logprobs' as const] }]) {
    const { events } = await raw({ input: ask('A'), ...more, stream: true });
    const response = checkStream(events, { reasoning: 'response.reasoning' });
    const [part] = response.output[0]!['content'] as {
      logprobs: { token: string; bytes: number[]; top_logprobs: unknown[] }[];
    }[];
    t.equal(part!.logprobs.map(({ token }) => token).join(''), said('A').content);
    for (const { token, bytes, top_logprobs } of part!.logprobs) {
      t.same(bytes, [...Buffer.from(token)]);
      t.equal(top_logprobs.length, 'top_logprobs' in more ? 2 : 0);
    }
  }
  t.same(((await create('A')).output[0] as { content: { logprobs: unknown[] }[] }).content[0]!.logprobs, []);
});

t.test(
  'a stored response can be continued immediately and uses the prefix cache; continuing an unstored one returns 404',
  async (t) => {
    const first = await create('A');
    const second = await create('', { model: undefined as never, previous_response_id: first.id, input: ask('B') });
    t.match(second, {
      model: 'clarke-1.0',
      output_text: said('B').content,
      previous_response_id: first.id,
      instructions: null,
    });
    t.ok(second.usage!.input_tokens > first.usage!.input_tokens + first.usage!.output_tokens);
    t.ok(second.usage!.input_tokens_details.cached_tokens > 0);
    t.equal(
      (
        await create('', {
          previous_response_id: second.id,
          input: [
            { type: 'item_reference', id: first.output[0]!.id! },
            { role: 'user', content: ask('E') },
          ],
        })
      ).output_text,
      said('E').content,
    );

    const unsaved = await create('A', { store: false });
    for (const previous_response_id of [unsaved.id, 'resp_unknown', 'x'.repeat(5_000)]) {
      await t.rejects(create('A', { previous_response_id }), {
        status: 404,
        code: 'previous_response_not_found',
        param: 'previous_response_id',
      });
    }
    let last: string | undefined;
    for await (const event of await client.responses.create({ model: 'clarke-1.0', input: ask('A'), stream: true })) {
      if (event.type !== 'response.completed') continue;
      last = event.response.id;
      t.equal(
        (await create('', { previous_response_id: last, input: ask('B') })).output_text,
        said('B').content,
        'a response can be continued as soon as its last event arrives',
      );
    }
    t.ok(last);
  },
);

t.test('images remain part of a response chain', async (t) => {
  const png = await sharp({ create: { width: 32, height: 32, channels: 3, background: 'red' } })
    .png()
    .toBuffer();
  const image: ResponseInputItem = {
    role: 'user',
    content: [
      { type: 'input_text', text: ask('A') },
      { type: 'input_image', image_url: `data:image/png;base64,${png.toString('base64')}`, detail: 'auto' },
    ],
  };
  const see = (more: Record<string, unknown>) => create('', { model: 'tycho-1.0', ...more });
  const first = await see({ input: [image] });
  const second = await see({ input: ask('B'), previous_response_id: first.id });
  const third = await see({ input: ask('E'), previous_response_id: second.id });
  const resent = await see({
    input: [
      image,
      ...first.output,
      { role: 'user', content: ask('B') },
      ...second.output,
      { role: 'user', content: ask('E') },
    ],
  });
  const without = await see({
    input: [
      { role: 'user', content: ask('A') },
      ...first.output,
      { role: 'user', content: ask('B') },
      ...second.output,
      { role: 'user', content: ask('E') },
    ],
  });
  t.equal(third.usage!.input_tokens, resent.usage!.input_tokens);
  t.ok(third.usage!.input_tokens > without.usage!.input_tokens, 'the image counts toward the input tokens');
  t.ok(third.usage!.input_tokens_details.cached_tokens > 0);
  await t.rejects(
    see({ input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,AAAA' }] }] }),
    { status: 422, code: 'unsupported_image_format', param: 'input[0].content[0]' },
  );
  await t.rejects(create('', { previous_response_id: first.id, input: 'x', model: 'clarke-1.0' }), {
    status: 422,
    code: 'model_not_vision',
    param: 'previous_response_id',
  });
});

t.test('a request can fill the prefix cache without generating output', async (t) => {
  const instructions = 'Long instructions. '.repeat(20);
  const warm = await raw({ input: [], instructions, generate: false });
  t.match(warm.body, { status: 'completed', output: [], usage: { output_tokens: 0 } });
  const { events } = await raw({ input: [], instructions, stream: true, prompt_cache_options: { prewarm: true } });
  t.same(
    events.map(({ type }) => type),
    ['response.created', 'response.in_progress', 'response.completed'],
  );
  const next = await create('', { previous_response_id: warm.body!['id'] as string, instructions, input: ask('A') });
  t.equal(next.output_text, said('A').content);
  t.ok(next.usage!.input_tokens_details.cached_tokens > 300);
});

t.test('invalid requests are refused with errors that the client understands', async (t) => {
  const cases: [change: Record<string, unknown>, status: number, code: string, param: string | null][] = [
    [{ model: 'nope' }, 404, 'model_not_found', 'model'],
    [{ model: undefined }, 400, 'missing_required_parameter', 'model'],
    [{ temperature: 3 }, 422, 'value_out_of_range', 'temperature'],
    [{ input: [{ type: 'wish' }] }, 400, 'unknown_variant', 'input[0].type'],
    [{ input: 'many words '.repeat(5_000) }, 400, 'context_length_exceeded', 'input'],
    [
      { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,AAAA' }] }] },
      422,
      'model_not_vision',
      'input[0].content[0]',
    ],
    [{ logit_bias: { 99999: 1 } }, 422, 'invalid_value', 'logit_bias'],
    [{ conversation: 'conv_1' }, 404, 'conversation_not_found', 'conversation'],
  ];
  for (const [change, status, code, param] of cases) {
    await t.rejects(create('A', change), { status, code, param }, code);
    await t.rejects(create('A', { ...change, stream: true } as never), { status, code, param }, `${code}, streamed`);
  }
});

t.test('automatic truncation keeps the system message, the last message and as much history as fits', async (t) => {
  const filler = Array.from(
    { length: 60 },
    (_, at): ResponseInputItem => ({ role: at % 2 === 0 ? 'user' : 'assistant', content: `${at} `.repeat(40) }),
  );
  const input: ResponseInputItem[] = [
    { role: 'system', content: 'Be brief.' },
    ...filler,
    { role: 'user', content: ask('E') },
  ];
  const { input_tokens } = await client.responses.inputTokens.count({ model: 'clarke-1.0', input });
  t.ok(input_tokens > 1.5 * 4_096, `${input_tokens} tokens`);
  await t.rejects(create('', { input }), { status: 400, code: 'context_length_exceeded' });
  const cut = (more: Record<string, unknown> = {}) =>
    create('', { input, truncation: 'auto', max_output_tokens: 50, ...more });
  const response = await cut();
  t.match(
    response,
    { status: 'completed', output_text: said('E').content, truncation: 'auto' },
    'the last message is kept',
  );
  t.ok(
    response.usage!.input_tokens > 3_500 && response.usage!.input_tokens < 4_096,
    'as much of the history as fits is kept',
  );
  // This system message is so long that truncation drops everything except it and the last message.
  const long = `Be brief. ${'Be kind. '.repeat(438)}`;
  const [least, alone] = await Promise.all(
    [[...filler, input.at(-1)!], [input.at(-1)!]].map((rest) =>
      cut({ input: [{ role: 'system', content: long }, ...rest] }),
    ),
  );
  t.equal(least!.usage!.input_tokens, alone!.usage!.input_tokens, 'the system message is kept');
});

t.test('a client disconnect stops generation, and the response is not stored', async (t) => {
  const stream = await client.responses.create({
    model: 'clarke-1.0',
    input: ask('L'),
    stream: true,
    reasoning: { effort: 'none' },
  });
  let id = '';
  for await (const event of stream) {
    if (event.type === 'response.created') id = event.response.id;
    if (event.type === 'response.output_text.delta') break; // leaving the loop closes the connection
  }
  t.match(id, /^resp_/);
  t.ok(
    await eventually(async () =>
      [...(await server.metrics())].filter(([name]) => /running|waiting/.test(name)).every(([, value]) => value === 0),
    ),
  );
  await t.rejects(create('', { previous_response_id: id, input: 'more' }), { code: 'previous_response_not_found' });
});
