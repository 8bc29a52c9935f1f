// Tests the local engine's provider: the translation of requests and of the engine's output.
import { join } from 'node:path';
import t from 'tap';
import { modelOfFile, type CatalogModel } from '../../src/engine/catalog.js';
import { Engine } from '../../src/engine/engine.js';
import { loadAddon } from '../../src/engine/load-addon.js';
import { PromptWriter } from '../../src/generation/local/prompt-writer.js';
import { LocalProvider } from '../../src/generation/local/local-provider.js';
import type { RequestContext, PreparedGeneration } from '../../src/generation/provider.js';
import { startersOf } from '../../src/generation/local/shield.js';
import type { GenerationEvent, GenerationRequest, Message, ToolDefinition } from '../../src/generation/types.js';
import { loadOptions, loadStarter, starterPath } from '../addon/starter.js';
import { cpuTime } from '../support/cpu-time.js';
import { writeScriptModel } from '../support/script-model.js';

const engine = new Engine(await loadStarter('prompter', { maxContext: 512 }));
t.teardown(() => engine.close());
const limits = {
  queueWaitMs: 10_000,
  maxGenerationMs: 60_000,
  grammar: { whiteSpace: 'compact', callWhiteSpace: 'flexible' },
  images: { perImage: 1_000, perRequest: 10_000 },
} as const;
const providerOf = (more: Partial<CatalogModel> = {}): LocalProvider =>
  new LocalProvider(engine, { ...modelOfFile('m', starterPath), ...more }, limits);
const provider = providerOf();

const tool = (name: string, description = 'Weather at a place.'): ToolDefinition => ({
  name,
  description,
  strict: false,
  path: `tools.${name}`,
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
});

function request(more: Partial<GenerationRequest> = {}): GenerationRequest {
  return {
    model: 'm',
    messages: [{ role: 'user', content: 'What is the weather in Paris?' }],
    continueFinal: false,
    sampling: { temperature: 0 },
    n: 1,
    maxTokens: 60,
    stop: [],
    topLogprobs: null,
    effort: 'none',
    reasoningBudget: null,
    tools: [],
    toolChoice: { mode: 'none', allowed: null },
    parallelToolCalls: true,
    format: { type: 'text' },
    truncation: 'disabled',
    promptParam: 'messages',
    ignoreEos: false,
    ...more,
  };
}

function run(prepared: PreparedGeneration): Promise<GenerationEvent[]> {
  return new Promise((resolve) => {
    const events: GenerationEvent[] = [];
    let left = prepared.n;
    prepared.start((event) => {
      events.push(event);
      if (event.type === 'failed' || (event.type === 'finished' && --left === 0)) resolve(events);
    });
  });
}

const me: RequestContext = { organization: 1 };
const prepare = (asked: GenerationRequest): Promise<PreparedGeneration> => provider.prepare(asked, me);
const count = async (asked: GenerationRequest): Promise<number> => (await provider.count(asked, me)).tokens;
const generate = async (asked: GenerationRequest): Promise<GenerationEvent[]> => run(await prepare(asked));
const last = (events: GenerationEvent[]) => events.at(-1) as Extract<GenerationEvent, { type: 'finished' }>;

t.test('count() equals the size of the prompt from prepare()', async (t) => {
  const cases: Partial<GenerationRequest>[] = [
    {},
    { tools: [tool('get_weather')], toolChoice: { mode: 'auto', allowed: null } },
    { effort: 'medium' },
    { format: { type: 'json_schema', name: null, schema: { type: 'object' }, strict: false, path: 'p' } },
  ];
  const counts = new Set<number>();
  for (const more of cases) {
    const asked = request(more);
    const tokens = await count(asked);
    t.equal(tokens, (await prepare(asked)).promptTokens.tokens);
    counts.add(tokens);
  }
  t.equal(counts.size, cases.length, 'each option adds tokens to the prompt');
  const long = request({ messages: [{ role: 'user', content: 'word '.repeat(2_000) }] });
  t.ok((await count(long)) > provider.contextWindow, 'even a prompt that exceeds the context is counted');
  await t.rejects(prepare(long), { code: 'context_length_exceeded', param: 'messages' });
  await t.rejects(prepare({ ...long, promptParam: 'input' }), { code: 'context_length_exceeded', param: 'input' });
});

t.test('charges rendering to the organization by the size of the input', async (t) => {
  const sizes: number[] = [];
  const charged = <T>(characters: number, work: () => T): T => {
    sizes.push(characters);
    return work();
  };
  const short = request({ messages: [{ role: 'user', content: 'x' }] });
  const long = request({ messages: Array.from({ length: 600 }, () => ({ role: 'user', content: 'word word' })) });
  await provider.prepare(short, { ...me, charged });
  t.same(sizes.splice(0), [33]);
  await provider.count(long, { ...me, charged });
  t.same(sizes.splice(0), [600 * (9 + 32)], 'messages count in addition to their text');
  await provider.prepare({ ...long, truncation: 'auto' }, { ...me, charged });
  t.ok(sizes.length > 1, 'each render is charged');
});

t.test('control tokens in tool definitions stay text', async (t) => {
  const { info } = engine;
  const { template, dialect, markers } = provider.prompter;
  const writer = new PromptWriter(template, dialect, markers, startersOf(info.specialTokens));
  const end = engine.findToken('<|im_end|>');
  const ends = async (description: string, parameters: ToolDefinition['parameters']): Promise<number> => {
    const { text, guard } = writer.write(request({ tools: [{ ...tool('f', description), parameters }] }), {
      thinking: false,
    });
    const tokens = await engine.tokenize(text, { addSpecial: false, parseSpecial: true, guard });
    t.ok(engine.detokenize(tokens).includes(JSON.stringify(description)), 'the definition arrives complete');
    return tokens.filter((token) => token === end).length;
  };
  const plain = await ends('plain', null);
  t.equal(
    await ends('<|im_end|> here', { properties: { '<|im_end|>': { enum: ['<|im_end|>', { deep: ['<|im_end|>'] }] } } }),
    plain,
  );
  t.throws(
    () =>
      writer.write(
        request({
          tools: [
            {
              ...tool('f'),
              parameters: JSON.parse('{"a":'.repeat(300) + '1' + '}'.repeat(300)) as Record<string, unknown>,
            },
          ],
        }),
        { thinking: false },
      ),
    { code: 'invalid_json_schema', param: 'tools[0]' },
  );
});

t.test('a required call is made to an allowed tool, and its tokens add up', async (t) => {
  const tools = [tool('get_weather'), tool('get_time')];
  for (const allowed of ['get_weather', 'get_time']) {
    const events = await generate(
      request({ tools, toolChoice: { mode: 'required', allowed: [allowed] }, parallelToolCalls: false }),
    );
    t.match(
      events.find(({ type }) => type === 'call_started'),
      { index: 0, name: allowed },
    );
    const text = events.map((event) => (event.type === 'call_arguments' ? event.text : '')).join('');
    const finished = events.find((event) => event.type === 'call_finished');
    if (finished?.complete === true) t.type(JSON.parse(text), 'object');
    t.ok(['tool_calls', 'malformed_call', 'max_tokens'].includes(last(events).reason), last(events).reason);
    t.equal(last(events).reason === 'tool_calls', finished?.complete === true);
    t.equal(last(events).calls, 1);
    const told = events.reduce((sum, event) => sum + ('tokens' in event ? event.tokens : 0), 0);
    t.ok(told <= last(events).completionTokens, `${told} of ${last(events).completionTokens}`);
    t.notOk(
      events.some((event) => event.type === 'text'),
      'the content contains no call markup',
    );
  }
  const whole = await generate(request({ tools, toolChoice: { mode: 'required', allowed: null }, maxTokens: 3 }));
  t.match(last(whole), { reason: 'max_tokens', completionTokens: 3 }, 'the response is truncated within the markup');
});

t.test('makes no call if none is allowed', async (t) => {
  const events = await generate(
    request({ tools: [tool('get_weather')], messages: [{ role: 'user', content: 'Weather in Paris?' }] }),
  );
  t.notOk(events.some(({ type }) => type.startsWith('call')));
  t.equal(last(events).calls, 0);
});

t.test('a request with max_tokens 0 generates nothing, and the next request finds its prompt cached', async (t) => {
  const messages: Message[] = [
    { role: 'system', content: 'You are a very patient assistant. '.repeat(6) },
    { role: 'user', content: 'Wait for it.' },
  ];
  const prepared = await prepare(request({ messages, maxTokens: 0 }));
  t.equal(prepared.maxTokens, 0);
  const { decodeTokens } = engine.stats();
  const events = await run(prepared);
  t.equal(engine.stats().decodeTokens, decodeTokens, 'no token is computed and discarded');
  t.same(
    events.map(({ type }) => type),
    ['started', 'finished'],
  );
  t.match(last(events), { reason: 'max_tokens', completionTokens: 0, reasoningTokens: 0 });
  const started = (await generate(request({ messages, maxTokens: 1 }))).find((event) => event.type === 'started');
  t.ok(started !== undefined && started.cachedTokens > 16, `${started?.cachedTokens} cached`);
});

t.test('respects an explicit reasoning budget', async (t) => {
  const [few, none] = [
    await generate(request({ effort: 'enabled', reasoningBudget: 5, ignoreEos: true, maxTokens: 40 })),
    await generate(request({ effort: 'none', maxTokens: 20 })),
  ];
  t.ok(
    last(few).reasoningTokens >= 5 && last(few).reasoningTokens <= 12,
    `${last(few).reasoningTokens} reasoning tokens, including the markers`,
  );
  t.equal(last(none).reasoningTokens, 0);
});

t.test('disables reasoning if the token limit leaves no room for it', async (t) => {
  const promptOf = async (more: Partial<GenerationRequest>) =>
    Array.from((await prepare(request(more))).promptIds ?? []);
  const [thinking, plain] = [await promptOf({ effort: 'medium' }), await promptOf({ effort: 'none' })];
  t.notSame(thinking, plain);
  t.same(await promptOf({ effort: 'medium', maxTokens: 2 }), plain);
  t.same(await promptOf({ effort: 'medium', maxTokens: 20 }), thinking);
  t.same(
    await promptOf({ effort: 'medium', maxTokens: 0 }),
    thinking,
    'a request that only fills the cache gets the same prompt as the request after it',
  );
  t.same(await promptOf({ effort: 'medium', maxTokens: null }), thinking);
  t.same(
    await promptOf({ effort: 'medium', maxTokens: 2, reasoningBudget: 1_024 }),
    thinking,
    'an explicit budget is respected',
  );
  const short = await providerOf({ max_output_tokens: 2 }).prepare(request({ effort: 'medium', maxTokens: null }), me);
  t.same(Array.from(short.promptIds ?? []), plain, "the model's own output limit applies");
});

t.test('truncation drops whole user turns, oldest first', async (t) => {
  const turn = (n: number): Message[] => [
    { role: 'user', content: `question ${n} ${'word '.repeat(20)}` },
    { role: 'assistant', content: null, toolCalls: [{ id: `c${n}`, name: 'f', arguments: '{}' }] },
    { role: 'tool', content: `result ${n}`, toolCallId: `c${n}` },
    { role: 'assistant', content: `answer ${n}` },
  ];
  const messages: Message[] = [
    { role: 'system', content: 'Be brief.' },
    ...Array.from({ length: 40 }, (_, n) => turn(n)).flat(),
    { role: 'user', content: 'The last one.' },
  ];
  await t.rejects(prepare(request({ messages })), { code: 'context_length_exceeded' });
  const asked = request({ messages, truncation: 'auto' });
  const prepared = await prepare(asked);
  t.ok(
    prepared.promptTokens.tokens <= provider.contextWindow - 60,
    `${prepared.promptTokens.tokens} prompt tokens leave room for the response`,
  );
  t.ok(prepared.promptTokens.tokens > provider.contextWindow / 2, 'no more is dropped than needed');
  t.equal(await count(asked), prepared.promptTokens.tokens);
  t.equal(
    (await prepare(request({ truncation: 'auto' }))).promptTokens.tokens,
    await count(request()),
    'a conversation that fits is unchanged',
  );
  const hopeless = request({ messages: [{ role: 'user', content: 'word '.repeat(2_000) }], truncation: 'auto' });
  await t.rejects(prepare(hopeless), { code: 'context_length_exceeded' });
  const huge = request({
    messages: [
      { role: 'user', content: 'x'.repeat(1 << 22) },
      { role: 'assistant', content: 'y' },
      { role: 'user', content: 'z' },
    ],
    truncation: 'auto',
  });
  t.ok((await prepare(huge)).promptTokens.tokens < 100, 'a very large turn is dropped without rendering it');
});

t.test('refuses, at almost no cost, a conversation whose length alone shows that it cannot fit', async (t) => {
  const called = (text: string): Message[] => [
    { role: 'user', content: 'x' },
    { role: 'assistant', content: null, toolCalls: [{ id: 'c', name: 'f', arguments: text }] },
    { role: 'tool', toolCallId: 'c', content: 'y' },
    { role: 'user', content: 'z' },
  ];
  const size = 20 << 20;
  const cases: Partial<GenerationRequest>[] = [
    { messages: [{ role: 'user', content: 'a'.repeat(size) }] },
    { tools: [tool('f', 'a'.repeat(size))], toolChoice: { mode: 'none', allowed: null } },
    { messages: called(`{"a":[${'1,'.repeat(size / 2)}1]}`) },
    { messages: called(`{"a":${'['.repeat(size / 2)}`) },
    // The last turn cannot be dropped.
    { messages: called(`{"a":[${'1,'.repeat(size / 2)}1]}`).slice(0, 3), truncation: 'auto' },
  ];
  await prepare(request({ messages: called('{}') }));
  // After this request, the length of the longest token is known.
  await t.rejects(prepare(request(cases[0])), { code: 'context_length_exceeded' });
  const spent = cpuTime();
  for (const more of cases)
    await t.rejects(prepare(request(more)), { code: 'context_length_exceeded', message: /at least/ });
  t.ok(spent() < 500, `${spent().toFixed()} ms`);
  const dropped = await prepare(request({ messages: called(`{"a":"${'x'.repeat(size)}"}`), truncation: 'auto' }));
  t.equal(dropped.promptTokens.tokens, await count(request({ messages: [{ role: 'user', content: 'z' }] })));
});

t.test('counts large parts separately, and organizations take turns', async (t) => {
  const described = (length: number) => request({ tools: [tool('f', 'word '.repeat(length / 5))] });
  const whole = await count(described(1_000_000));
  const apart = await count(described(1_100_000));
  t.ok(Math.abs(apart / whole - 1.1) < 0.001, 'parts that the template does not render are still counted');
  const deep = request({
    messages: [
      { role: 'user', content: 'x' },
      {
        role: 'assistant',
        content: null,
        toolCalls: [{ id: 'c', name: 'f', arguments: `{"a":${'['.repeat(900_000)}` }],
      },
      { role: 'tool', toolCallId: 'c', content: 'y' },
    ],
  });
  const spent = cpuTime();
  t.ok((await count(deep)) > provider.contextWindow);
  t.ok(spent() < 2_000, 'deeply nested arguments are text');

  const long = request({ messages: [{ role: 'user', content: 'word '.repeat(200_000) }] });
  const clients = Array.from({ length: 20 }, () => new AbortController()); // each request has its own signal
  let done = 0;
  const many = Promise.allSettled(
    clients.map(({ signal }) => provider.count(long, { ...me, signal }).finally(() => done++)),
  );
  await provider.count(long, { organization: 2 });
  t.ok(done < 8, `another organization's count does not wait for all twenty (${done} were done)`);
  for (const client of clients) client.abort(new Error('gone'));
  t.match((await many).at(-1), { status: 'rejected', reason: { message: 'gone' } });
});

t.test("refuses images with the parameter's name, or replaces them with a note", async (t) => {
  const path = 'messages[0].content[1]';
  const image = { bytes: new Uint8Array(), format: 'png' as const, width: 640, height: 480 };
  const asked = request({
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'See' },
          { type: 'image', source: { kind: 'loaded', image }, detail: 'auto', path },
        ],
      },
    ],
  });
  t.throws(() => provider.check(asked), { code: 'model_not_vision', param: path });
  const noting = providerOf({ image_input: 'note' });
  noting.check(asked);
  t.ok(
    (await noting.count(asked, me)).tokens > (await count(request({ messages: [{ role: 'user', content: 'See' }] }))),
  );
  t.throws(() => provider.check(request({ sampling: { logitBias: [{ token: 1_000_000, bias: 1 }] } })), {
    code: 'invalid_value',
    param: 'logit_bias',
  });
});

t.test('no response is longer than a client library can read, regardless of the context window', async (t) => {
  const path = join(t.testdir(), 'script.gguf');
  writeScriptModel(path, { context: 70_000 });
  const wide = new Engine(await loadAddon().load('wide', path, { ...loadOptions, maxContext: 0 }, () => {}));
  t.teardown(() => wide.close());
  t.match(new LocalProvider(wide, modelOfFile('m', path), limits), { contextWindow: 70_000, maxOutputTokens: 65_535 });
  t.equal(
    new LocalProvider(wide, { ...modelOfFile('m', path), context_window: 60_000 }, limits).maxOutputTokens,
    59_999,
  );
});

t.test('requests fail with a retryable error if their model is unloaded during preparation', async (t) => {
  const leaving = new Engine(await loadStarter('leaving', { maxContext: 512 }));
  const provider = new LocalProvider(leaving, modelOfFile('m', starterPath), limits);
  const late = [
    provider.prepare(request(), me),
    provider.prepare(request({ messages: [{ role: 'user', content: 'x'.repeat(5_000) }] }), me),
    provider.count(request(), me),
  ];
  const closed = leaving.close();
  for (const one of [...late, provider.prepare(request(), me), provider.count(request(), me)]) {
    await one.then(
      () => t.pass('the request was prepared before the unload'),
      (error: unknown) =>
        t.match(error, { code: 'shutting_down', status: 503 }, 'the request fails with a retryable error'),
    );
  }
  await closed;
});
