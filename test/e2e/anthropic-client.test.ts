// Runs the unmodified official client against a real server whose model returns scripted output. Covers section 10 of
// the Messages contract.
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import t from 'tap';
import { z } from 'zod';
import { KeyRing } from '../../src/accounts/sealing/key-ring.js';
import { KeySealer } from '../../src/accounts/sealing/key-sealer.js';
import { said, startScripted } from '../support/script-model.js';

t.setTimeout(300_000); // the machine may be busy

const [current, previous] = ['c7'.repeat(32), '9d'.repeat(32)] as const;
const server = await startScripted({
  env: {
    MONOLITH_SECRETS_SIGNING_KEYS: `${current},${previous}`,
    MONOLITH_MODELS: JSON.stringify({ 'clarke-1.0': { image_input: 'note' } }),
  },
});
t.teardown(() => server.stop());

/** Returns a client that passes each request's headers through `change`. */
const clientWith = (change: (headers: Headers) => void): Anthropic =>
  new Anthropic({
    baseURL: server.url,
    apiKey: server.key,
    maxRetries: 0,
    fetch: (url, init) => {
      const headers = new Headers(init?.headers);
      change(headers);
      return fetch(url, { ...init, headers });
    },
  });
const client = new Anthropic({ baseURL: server.url, apiKey: server.key, maxRetries: 0 });

const model = 'tycho-1.0';
const ask = (content: string): Anthropic.MessageParam[] => [{ role: 'user', content }];
const plain = { model, max_tokens: 500, messages: ask('A: What is the capital?') };
const weather: Anthropic.Tool = {
  name: 'get_weather',
  description: 'The weather at a place.',
  input_schema: { type: 'object', properties: { location: { type: 'string' } }, required: ['location'] },
};
const clock: Anthropic.Tool = { name: 'get_time', input_schema: { type: 'object', properties: {} } };
const inputTokens = ({ usage }: Anthropic.Message): number =>
  usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0);
const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => null,
    (error: unknown) => error,
  );
/** Selects the parts of a message that are the same in every response to the same request. */
const lasting = ({ content, stop_reason, stop_sequence, usage }: Anthropic.Message) => ({
  content: content.map((block) =>
    block.type === 'tool_use' ? { ...block, id: '' } : { ...block, parsed_output: undefined },
  ),
  stop_reason,
  stop_sequence,
  output: usage.output_tokens,
  thinking: usage.output_tokens_details,
});

const person = z.object({ name: z.string(), age: z.number().int(), tags: z.array(z.string()) });

t.test('create, stream, parse, countTokens and list work with any authentication and version header', async (t) => {
  const clients: [string, Anthropic][] = [
    ['default headers', client],
    [
      'x-api-key and anthropic-version 2023-06-01',
      clientWith((headers) => {
        headers.delete('authorization');
        headers.set('x-api-key', server.key);
        headers.set('anthropic-version', '2023-06-01');
      }),
    ],
    [
      'compat-version',
      clientWith((headers) => {
        headers.delete('anthropic-version');
        headers.set('compat-version', '2023-06-01');
      }),
    ],
    ['no version header', clientWith((headers) => headers.delete('anthropic-version'))],
  ];
  for (const [name, one] of clients) {
    await t.test(name, async (t) => {
      const { data: message, response } = await one.messages.create(plain).withResponse();
      t.match(message, {
        id: /^msg_[0-9A-Za-z]{24}$/,
        type: 'message',
        role: 'assistant',
        model,
        stop_reason: 'end_turn',
        stop_sequence: null,
        content: [{ type: 'text', text: said('A').content }],
        usage: { service_tier: 'standard', output_tokens: 6 },
      });
      t.match(response.headers.get('request-id'), /^req_/);
      t.match(response.headers.get('anthropic-organization-id'), /^org_/);
      t.ok(Number(response.headers.get('anthropic-ratelimit-tokens-remaining')) > 0);
      t.same(lasting(await one.messages.stream(plain).finalMessage()), lasting(message));
      t.equal((await one.messages.countTokens({ model, messages: plain.messages })).input_tokens, inputTokens(message));
      const parsed = await one.messages.parse({
        ...plain,
        messages: ask('J: Who?'),
        output_config: { format: zodOutputFormat(person) },
      });
      t.same(parsed.parsed_output, { name: 'Ada', age: 36, tags: ['math', 'engines'] });
      for (const limit of [undefined, 1, 2, 3]) {
        const models: string[] = [];
        for await (const { id } of one.models.list(limit === undefined ? undefined : { limit })) models.push(id);
        t.same(models, ['hal-1.0', 'clarke-1.0', 'tycho-1.0'], `with page size ${limit ?? 20}`);
      }
      t.equal((await one.models.retrieve(model)).id, model);
    });
  }
});

t.test('returns thinking and a tool call, then the answer after the tool result', async (t) => {
  const request = { model, max_tokens: 4_096, thinking: { type: 'adaptive' as const }, tools: [weather] };
  const first = await client.messages.create({ ...request, messages: ask('K: Weather in Oslo?') });
  t.equal(first.stop_reason, 'tool_use');
  t.match(first.content, [
    { type: 'thinking', thinking: /^I need the weather first\.\s*$/, signature: /^A/ },
    { type: 'text', text: /^Let me look\.\s*$/ },
    {
      type: 'tool_use',
      id: /^toolu_[0-9A-Za-z]{24}$/,
      name: 'get_weather',
      input: { location: 'Oslo' },
      caller: { type: 'direct' },
    },
  ]);
  t.ok(first.usage.output_tokens_details!.thinking_tokens > 0);
  const called = first.content.find((block) => block.type === 'tool_use')!;
  const loop = (content: Anthropic.ContentBlockParam[]): Anthropic.MessageParam[] => [
    ...ask('K: Weather in Oslo?'),
    { role: 'assistant', content },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: called.id, content: 'T: 14 C' }] },
  ];
  const second = await client.messages.create({ ...request, messages: loop(first.content) });
  t.match(second, { stop_reason: 'end_turn', content: [{ type: 'text', text: said('T').content }] });
  const without = await client.messages.countTokens({ ...request, messages: loop(first.content.slice(1)) });
  t.ok(inputTokens(second) > without.input_tokens, 'the thinking of the current tool loop is passed to the model');
  const later = [...loop(first.content), { role: 'assistant' as const, content: second.content }, ...ask('A: Thanks.')];
  const laterWithout = [
    ...loop(first.content.slice(1)),
    { role: 'assistant' as const, content: second.content },
    ...ask('A: Thanks.'),
  ];
  t.equal(
    (await client.messages.countTokens({ ...request, messages: later })).input_tokens,
    (await client.messages.countTokens({ ...request, messages: laterWithout })).input_tokens,
    'older thinking is neither passed to the model nor counted',
  );
  t.equal((await client.messages.create({ ...request, messages: later })).stop_reason, 'end_turn');

  const thinking = first.content[0] as Anthropic.ThinkingBlock;
  for (const spoiled of [
    { ...thinking, thinking: thinking.thinking.replace('need', 'want') },
    {
      ...thinking,
      signature: `${thinking.signature.slice(0, 20)}${thinking.signature[20] === 'x' ? 'y' : 'x'}${thinking.signature.slice(21)}`,
    },
    { ...thinking, signature: '' },
  ]) {
    const body = { ...request, messages: loop([spoiled, ...first.content.slice(1)]) };
    t.equal(inputTokens(await client.messages.create(body)), without.input_tokens, 'a changed block is left out');
    const block_binding = { prefix_mismatch_behavior: 'error' };
    const strict = { ...body, thinking: { ...body.thinking, block_binding } };
    const error = await failure(client.messages.create(strict));
    t.ok(error instanceof Anthropic.BadRequestError);
    t.match(error, {
      status: 400,
      errorCode: 'invalid_thinking_signature',
      error: { error: { param: 'messages[1].content[0]' } },
    });
  }
});

t.test('thinking with display "omitted" is hidden from the client but still reaches the model', async (t) => {
  const request = {
    model,
    max_tokens: 4_096,
    thinking: { type: 'adaptive' as const, display: 'omitted' as const },
    tools: [weather],
  };
  const whole = await client.messages.create({ ...request, messages: ask('K: Weather in Oslo?') });
  const seen: string[] = [];
  const streamed = await client.messages
    .stream({ ...request, messages: ask('K: Weather in Oslo?') })
    .on('streamEvent', (event) => {
      if (event.type === 'content_block_delta') seen.push(event.delta.type);
    })
    .finalMessage();
  t.notOk(seen.includes('thinking_delta'));
  t.equal(seen.filter((type) => type === 'signature_delta').length, 1);
  for (const first of [whole, streamed]) {
    const thinking = first.content[0] as Anthropic.ThinkingBlock;
    t.equal(thinking.thinking, '');
    t.notMatch(Buffer.from(thinking.signature, 'base64url').toString('latin1'), 'weather');
    const id = first.content.find((block) => block.type === 'tool_use')!.id;
    const messages = (content: Anthropic.ContentBlockParam[]): Anthropic.MessageParam[] => [
      ...ask('K: Weather in Oslo?'),
      { role: 'assistant', content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'T: 14 C' }] },
    ];
    const counted = async (content: Anthropic.ContentBlockParam[]) =>
      (await client.messages.countTokens({ ...request, messages: messages(content) })).input_tokens;
    t.ok(
      (await counted(first.content)) > (await counted(first.content.slice(1))),
      'the model receives the hidden thinking',
    );
    t.equal(
      await counted([{ type: 'redacted_thinking', data: thinking.signature }, ...first.content.slice(1)]),
      await counted(first.content),
    );
    t.match(await client.messages.create({ ...request, messages: messages(first.content) }), {
      content: [{ type: 'text', text: said('T').content }],
    });
  }
});

t.test('a thinking block opens with the previous key, and is left out if another model signed it', async (t) => {
  const { response } = await client.messages.create(plain).withResponse();
  const organizationId = response.headers.get('anthropic-organization-id')!;
  const send = (key: string, signedBy: string) => {
    const signature = new KeySealer(new KeyRing([Buffer.from(key, 'hex')]), []).signThinking('hm', {
      organizationId,
      model: signedBy,
    });
    const sent = client.messages.create({
      ...plain,
      messages: [
        ...ask('A: x'),
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'hm', signature },
            { type: 'text', text: 'y' },
          ],
        },
        ...ask('A: z'),
      ],
    });
    return sent.withResponse().then(({ response }) => response.headers.get('x-ignored-content'));
  };
  t.equal(await send(current, model), null);
  t.equal(await send(previous, model), null);
  t.equal(await send(previous, 'hal-1.0'), 'messages[1].content[0]', "the other model's reasoning is left out");
  t.equal(await send('00'.repeat(32), model), 'messages[1].content[0]', 'an unknown key is like another service');
});

t.test('when max_tokens is reached inside thinking, the response ends with an empty text block', async (t) => {
  const request = {
    model,
    max_tokens: 1_040,
    thinking: { type: 'enabled' as const, budget_tokens: 1_039 },
    messages: ask('R: Think.'),
  };
  const whole = await client.messages.create(request);
  const streamed = await client.messages.stream(request).finalMessage();
  t.same(lasting(streamed), lasting(whole));
  t.match(whole, {
    stop_reason: 'max_tokens',
    content: [
      { type: 'thinking', signature: /^A/ },
      { type: 'text', text: '' },
    ],
    usage: { output_tokens: 1_040 },
  });
  t.match(
    await client.messages.create({
      ...request,
      messages: [...request.messages, { role: 'assistant', content: whole.content }, ...ask('A: And?')],
    }),
    { stop_reason: 'end_turn' },
    'the response can be sent back in the next request',
  );
});

t.test('continues a prefilled assistant message without repeating it', async (t) => {
  const messages: Anthropic.MessageParam[] = [
    ...ask('A: What is the capital?'),
    { role: 'assistant', content: 'Paris is the' },
  ];
  const whole = await client.messages.create({ ...plain, messages });
  const [block] = whole.content as [Anthropic.TextBlock];
  t.notMatch(block.text, /^Paris is the/);
  t.ok(block.text.length > 0);
  t.same(lasting(await client.messages.stream({ ...plain, messages }).finalMessage()), lasting(whole));
  t.match(await failure(client.messages.create({ ...plain, messages, thinking: { type: 'adaptive' } })), {
    status: 422,
    errorCode: 'conflicting_parameters',
  });
});

t.test('countTokens equals the usage of the real request with tools, results, images and documents', async (t) => {
  const image: Anthropic.ImageBlockParam = {
    type: 'image',
    source: {
      type: 'base64',
      media_type: 'image/png',
      data: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==',
    },
  };
  const cases: Anthropic.MessageCountTokensParams[] = [
    { model, messages: ask('A: x'), system: 'Be brief.', tools: [weather, clock] },
    { model, messages: ask('A: x'), tools: [weather, clock], tool_choice: { type: 'none' } },
    { model, messages: ask('A: x'), thinking: { type: 'adaptive' } },
    {
      model,
      messages: [
        ...ask('W: x'),
        {
          role: 'assistant',
          content: [{ type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { location: 'Zürich' } }],
        },
        {
          role: 'user',
          content: [
            {
              type: 'tool_result',
              tool_use_id: 'toolu_1',
              content: [{ type: 'text', text: 'T: 14 C' }],
              is_error: true,
            },
          ],
        },
      ],
      tools: [weather],
    },
    { model: 'clarke-1.0', messages: [{ role: 'user', content: [image, { type: 'text', text: 'A: What is this?' }] }] },
    {
      model,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'document', title: 'Note', source: { type: 'text', media_type: 'text/plain', data: 'Tuesday.' } },
            { type: 'text', text: 'A: When?' },
          ],
        },
      ],
    },
  ];
  for (const body of cases) {
    const counted = (await client.messages.countTokens(body)).input_tokens;
    t.equal(
      counted,
      inputTokens(await client.messages.create({ ...body, max_tokens: 300 })),
      JSON.stringify(body).slice(0, 120),
    );
    const prepared = await client.messages.create({ ...body, max_tokens: 0 });
    t.match(prepared, { content: [], stop_reason: 'max_tokens', usage: { output_tokens: 0 } });
    t.equal(inputTokens(prepared), counted);
    t.same(lasting(await client.messages.stream({ ...body, max_tokens: 0 }).finalMessage()), lasting(prepared));
  }
  t.match(await failure(client.messages.create({ ...plain, messages: [{ role: 'user', content: [image] }] })), {
    status: 400,
    errorCode: 'model_not_vision',
    message: /Could not process image/,
    error: { error: { param: 'messages[0].content[0]' } },
  });
});

t.test('a request with max_tokens 0 fills the prefix cache for the next request', async (t) => {
  const request = { model, messages: ask(`A: ${'Some long preamble. '.repeat(20)}`) };
  await client.messages.create({ ...request, max_tokens: 0 });
  const { usage } = await client.messages.create({ ...request, max_tokens: 100 });
  t.ok(usage.cache_read_input_tokens! > 300);
  t.ok(usage.input_tokens < 50);
});

t.test('returns several parallel tool calls, or one if parallel tool use is disabled', async (t) => {
  const request = { model, max_tokens: 500, tools: [weather], messages: ask('P: Weather in Paris and Rome?') };
  const whole = await client.messages.create(request);
  t.match(whole, {
    stop_reason: 'tool_use',
    content: [
      { name: 'get_weather', input: { location: 'Paris' } },
      { name: 'get_weather', input: { location: 'Rome' } },
    ],
  });
  t.equal(whole.content.length, 2);
  t.same(lasting(await client.messages.stream(request).finalMessage()), lasting(whole));
  for (const type of ['auto', 'any'] as const) {
    const one = await client.messages.create({ ...request, tool_choice: { type, disable_parallel_tool_use: true } });
    t.equal(one.content.filter((block) => block.type === 'tool_use').length, 1, type);
    t.equal(one.stop_reason, 'tool_use');
  }
  const [first, second] = whole.content as [Anthropic.ToolUseBlock, Anthropic.ToolUseBlock];
  const results = (...ids: string[]): Anthropic.MessageParam[] => [
    ...request.messages,
    { role: 'assistant', content: whole.content },
    { role: 'user', content: ids.map((id) => ({ type: 'tool_result' as const, tool_use_id: id, content: 'T: 14 C' })) },
  ];
  t.match(await client.messages.create({ ...request, messages: results(second.id, first.id) }), {
    content: [{ text: said('T').content }],
  });
  t.match(await failure(client.messages.create({ ...request, messages: results(first.id) })), {
    status: 422,
    errorCode: 'missing_tool_output',
  });
  t.match(await failure(client.messages.create({ ...request, messages: results(first.id, second.id, 'toolu_x') })), {
    status: 422,
    errorCode: 'tool_call_not_found',
  });
});

t.test('tool_choice forces a named tool or any tool, or forbids all', async (t) => {
  const request = { model, max_tokens: 500, tools: [weather, clock], messages: ask('A: x') };
  t.match(await client.messages.create({ ...request, tool_choice: { type: 'tool', name: 'get_weather' } }), {
    stop_reason: 'tool_use',
    content: [{ type: 'tool_use', name: 'get_weather' }],
  });
  t.match(await client.messages.create({ ...request, tool_choice: { type: 'any' } }), { stop_reason: 'tool_use' });
  t.notOk(
    (await client.messages.create({ ...request, messages: ask('W: x'), tool_choice: { type: 'none' } })).content.some(
      (block) => block.type === 'tool_use',
    ),
  );
});

t.test('returns nested arguments, empty arguments, and arguments truncated by max_tokens', async (t) => {
  const tools: Anthropic.Tool[] = [
    clock,
    { name: 'save_note', input_schema: { type: 'object' } },
    { name: 'write_file', input_schema: { type: 'object' } },
  ];
  const both = async (messages: Anthropic.MessageParam[], max_tokens = 500) => {
    const whole = await client.messages.create({ model, max_tokens, tools, messages });
    t.same(
      lasting(await client.messages.stream({ model, max_tokens, tools, messages }).finalMessage()),
      lasting(whole),
    );
    return whole;
  };
  t.match(await both(ask('D: x')), {
    stop_reason: 'tool_use',
    content: [{ name: 'save_note', input: JSON.parse(said('D').calls[0]!.arguments) as object }],
  });
  t.match(await both(ask('O: x')), { stop_reason: 'tool_use', content: [{ name: 'get_time', input: {} }] });
  t.match(
    await both(ask('Q: x'), 40),
    { stop_reason: 'max_tokens', content: [{ type: 'tool_use', name: 'write_file', input: { path: 'a.txt' } }] },
    'the truncated arguments keep their complete part',
  );
});

t.test('ends at a stop sequence and reports which one', async (t) => {
  const request = { ...plain, messages: ask('S: x'), stop_sequences: ['never', 'STOP'] };
  const whole = await client.messages.create(request);
  t.match(whole, { stop_reason: 'stop_sequence', stop_sequence: 'STOP', content: [{ text: 'one two ' }] });
  t.same(lasting(await client.messages.stream(request).finalMessage()), lasting(whole));
});

t.test('accepts the system prompt as a string, as blocks and as a message', async (t) => {
  const count = async (change: Partial<Anthropic.MessageCreateParams>) =>
    inputTokens(await client.messages.create({ ...plain, ...change, stream: false }));
  const none = await count({});
  const text = await count({ system: 'Be brief.\n\nBe kind.' });
  t.ok(text > none);
  t.equal(
    await count({
      system: [
        { type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } },
        { type: 'text', text: 'Be kind.' },
      ],
    }),
    text,
  );
  t.equal(await count({ messages: [{ role: 'system', content: 'Be brief.\n\nBe kind.' }, ...plain.messages] }), text);
  t.equal(
    await count({
      system: [
        { type: 'text', text: 'x-anthropic-billing-header: cch=1' },
        { type: 'text', text: 'Be brief.\n\nBe kind.' },
      ],
    }),
    text,
  );
});

t.test('the tool runner of the client completes the tool loop', async (t) => {
  const asked: unknown[] = [];
  const tool = betaTool({
    name: 'get_weather',
    description: 'The weather at a place.',
    inputSchema: { type: 'object', properties: { location: { type: 'string' } }, required: ['location'] },
    run: ({ location }) => {
      asked.push(location);
      return 'T: 14 C';
    },
  });
  for (const stream of [false, true]) {
    const runner = client.beta.messages.toolRunner({
      model,
      max_tokens: 1_000,
      messages: [{ role: 'user', content: 'K: Weather in Oslo?' }],
      tools: [tool],
      thinking: { type: 'adaptive' },
      stream,
    });
    t.match(await runner, { stop_reason: 'end_turn', content: [{ type: 'text', text: said('T').content }] });
  }
  t.same(asked, ['Oslo', 'Oslo']);
});

t.test('unless truncated, a response matches the requested schema, regardless of what the model prefers', async (t) => {
  for (const letter of ['F', 'I']) {
    const request = {
      ...plain,
      max_tokens: 300,
      messages: ask(`${letter}: x`),
      output_config: { format: zodOutputFormat(person) },
    };
    const answers = [
      await client.messages.create(request),
      await client.messages
        .stream({ ...request })
        .finalMessage()
        .catch((error: unknown) => error),
    ];
    for (const answer of answers) {
      if (answer instanceof Error) continue; // the client throws if it cannot parse a truncated response
      const {
        stop_reason,
        content: [block],
      } = answer as Anthropic.Message;
      if (stop_reason === 'end_turn')
        t.ok(person.safeParse(JSON.parse((block as Anthropic.TextBlock).text)).success, letter);
      else t.equal(stop_reason, 'max_tokens', letter);
    }
  }
  t.equal(
    (
      await client.messages.create({
        ...plain,
        max_tokens: 2,
        messages: ask('J: x'),
        output_config: { format: zodOutputFormat(person) },
      })
    ).stop_reason,
    'max_tokens',
    'a truncated response need not be complete JSON',
  );
});

t.test('errors reach the client as the error types that it expects', async (t) => {
  const cases: [change: object, status: number, code: string, type: string][] = [
    [{ model: 'nope' }, 404, 'model_not_found', 'not_found_error'],
    [{ temperature: 3 }, 422, 'value_out_of_range', 'unprocessable_entity'],
    [{ max_tokens: 'many' }, 400, 'invalid_type', 'invalid_request_error'],
    [{ messages: ask('many words '.repeat(5_000)) }, 400, 'context_length_exceeded', 'invalid_request_error'],
    [{ tools: [{ name: 'a b', input_schema: { type: 'object' } }] }, 422, 'invalid_tool_name', 'unprocessable_entity'],
  ];
  for (const [change, status, code, type] of cases) {
    const error = await failure(client.messages.create({ ...plain, ...change, stream: false }));
    t.ok(error instanceof Anthropic.APIError, code);
    t.match(error, { status, errorCode: code, type, requestID: /^req_/ });
  }
  t.match(await failure(client.messages.create({ ...plain, messages: ask('many words '.repeat(5_000)) })), {
    message: /prompt is too long: \d+ tokens > \d+ maximum/,
  });
  t.ok(
    (await client.messages.countTokens({ model, messages: ask('many words '.repeat(5_000)) })).input_tokens > 16_384,
    'counting tokens has no context limit',
  );
});
