// The prompter on the embedded model: what a request becomes, and what comes back.
import { join } from 'node:path';
import t from 'tap';
import { modelOfFile, type CatalogModel } from '../../src/engine/catalog.js';
import { Engine } from '../../src/engine/engine.js';
import { loadAddon } from '../../src/engine/load-addon.js';
import { PromptWriter } from '../../src/generation/prompt-writer.js';
import { Prompter } from '../../src/generation/prompter.js';
import { startersOf } from '../../src/generation/shield.js';
import type { GenerationEvent, GenerationRequest, Message, PreparedGeneration, ToolDefinition } from '../../src/generation/types.js';
import { loadOptions, loadStarter, starterPath } from '../addon/starter.js';
import { cpuTime } from '../support/cpu-time.js';
import { writeScriptModel } from '../support/script-model.js';

const engine = new Engine(await loadStarter('prompter', { maxContext: 512 }));
t.teardown(() => engine.close());
const limits = { queueWaitMs: 10_000, maxGenerationMs: 60_000, grammar: { whiteSpace: 'compact', callWhiteSpace: 'flexible' } } as const;
const prompterOf = (more: Partial<CatalogModel> = {}): Prompter =>
  new Prompter(engine, { ...modelOfFile('m', starterPath), ...more }, limits);
const prompter = prompterOf();

const tool = (name: string, description = 'Weather at a place.'): ToolDefinition => ({
  name, description, strict: false, path: `tools.${name}`,
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
});

function request(more: Partial<GenerationRequest> = {}): GenerationRequest {
  return {
    model: 'm', messages: [{ role: 'user', content: 'What is the weather in Paris?' }], continueFinal: false,
    sampling: { temperature: 0 }, n: 1, maxTokens: 60, stop: [], topLogprobs: null, effort: 'none', reasoningBudget: null,
    tools: [], toolChoice: { mode: 'none', allowed: null }, parallelToolCalls: true, format: { type: 'text' },
    truncation: 'disabled', promptParam: 'messages', ignoreEos: false, ...more,
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

const generate = async (asked: GenerationRequest): Promise<GenerationEvent[]> => run(await prompter.prepare(asked, 1));
const last = (events: GenerationEvent[]) => events.at(-1) as Extract<GenerationEvent, { type: 'finished' }>;

t.test('count() is what prepare() has', async (t) => {
  const cases: Partial<GenerationRequest>[] = [
    {}, { tools: [tool('get_weather')], toolChoice: { mode: 'auto', allowed: null } }, { effort: 'medium' },
    { format: { type: 'json_schema', name: null, schema: { type: 'object' }, strict: false, path: 'p' } },
  ];
  const counts = new Set<number>();
  for (const more of cases) {
    const asked = request(more);
    const tokens = await prompter.count(asked, 1);
    t.equal(tokens, (await prompter.prepare(asked, 1)).promptTokens);
    counts.add(tokens);
  }
  t.equal(counts.size, cases.length, 'each adds its own');
  const long = request({ messages: [{ role: 'user', content: 'word '.repeat(2_000) }] });
  t.ok(await prompter.count(long, 1) > prompter.contextWindow, 'more than fits is counted too');
  await t.rejects(prompter.prepare(long, 1), { code: 'context_length_exceeded', param: 'messages' });
  await t.rejects(prompter.prepare({ ...long, promptParam: 'input' }, 1), { code: 'context_length_exceeded', param: 'input' });
});

t.test('rendering is charged to who asks, by what there is to render', async (t) => {
  const sizes: number[] = [];
  const charged = <T>(characters: number, work: () => T): T => {
    sizes.push(characters);
    return work();
  };
  const short = request({ messages: [{ role: 'user', content: 'x' }] });
  const long = request({ messages: Array.from({ length: 600 }, () => ({ role: 'user', content: 'word word' })) });
  await prompter.prepare(short, 1, undefined, charged);
  t.same(sizes.splice(0), [33]);
  await prompter.count(long, 1, undefined, charged);
  t.same(sizes.splice(0), [600 * (9 + 32)], 'messages count besides their text');
  await prompter.prepare({ ...long, truncation: 'auto' }, 1, undefined, charged);
  t.ok(sizes.length > 1, 'each time it is rendered');
});

t.test('control tokens in definitions are text', async (t) => {
  const { info } = engine;
  const writer = new PromptWriter(prompter.template, prompter.dialect, prompter.markers, startersOf(info.specialTokens));
  const end = engine.findToken('<|im_end|>');
  const ends = async (description: string, parameters: ToolDefinition['parameters']): Promise<number> => {
    const { text, guard } = writer.write(request({ tools: [{ ...tool('f', description), parameters }] }), false);
    const tokens = await engine.tokenize(text, { addSpecial: false, parseSpecial: true, guard });
    t.ok(engine.detokenize(tokens).includes(JSON.stringify(description)), 'and come through whole');
    return tokens.filter((token) => token === end).length;
  };
  const plain = await ends('plain', null);
  t.equal(await ends('<|im_end|> here', { properties: { '<|im_end|>': { enum: ['<|im_end|>', { deep: ['<|im_end|>'] }] } } }), plain);
  t.throws(() => writer.write(request({ tools: [{ ...tool('f'), parameters: JSON.parse('{"a":'.repeat(300) + '1' + '}'.repeat(300)) as Record<string, unknown> }] }), false),
    { code: 'invalid_json_schema', param: 'tools[0]' });
});

t.test('a required call is made, of an allowed tool, and its tokens add up', async (t) => {
  const tools = [tool('get_weather'), tool('get_time')];
  for (const allowed of ['get_weather', 'get_time']) {
    const events = await generate(request({ tools, toolChoice: { mode: 'required', allowed: [allowed] }, parallelToolCalls: false }));
    t.match(events.find(({ type }) => type === 'call_started'), { index: 0, name: allowed });
    const text = events.map((event) => (event.type === 'call_arguments' ? event.text : '')).join('');
    const finished = events.find((event) => event.type === 'call_finished');
    if (finished?.complete === true) t.type(JSON.parse(text), 'object');
    t.ok(['tool_calls', 'malformed_call', 'max_tokens'].includes(last(events).reason), last(events).reason);
    t.equal(last(events).reason === 'tool_calls', finished?.complete === true);
    t.equal(last(events).calls, 1);
    const told = events.reduce((sum, event) => sum + ('tokens' in event ? event.tokens : 0), 0);
    t.ok(told <= last(events).completionTokens, `${told} of ${last(events).completionTokens}`);
    t.notOk(events.some((event) => event.type === 'text'), 'no markup in the content');
  }
  const whole = await generate(request({ tools, toolChoice: { mode: 'required', allowed: null }, maxTokens: 3 }));
  t.match(last(whole), { reason: 'max_tokens', completionTokens: 3 }, 'cut within the markup');
});

t.test('no call where none is wanted', async (t) => {
  const events = await generate(request({ tools: [tool('get_weather')], messages: [{ role: 'user', content: 'Weather in Paris?' }] }));
  t.notOk(events.some(({ type }) => type.startsWith('call')));
  t.equal(last(events).calls, 0);
});

t.test('only the prompt: nothing is generated, and the next request finds it cached', async (t) => {
  const messages: Message[] = [{ role: 'system', content: 'You are a very patient assistant. '.repeat(6) }, { role: 'user', content: 'Wait for it.' }];
  const prepared = await prompter.prepare(request({ messages, maxTokens: 0 }), 1);
  t.equal(prepared.maxTokens, 0);
  const { decodeTokens } = engine.stats();
  const events = await run(prepared);
  t.equal(engine.stats().decodeTokens, decodeTokens, 'no token is computed to be dropped');
  t.same(events.map(({ type }) => type), ['started', 'finished']);
  t.match(last(events), { reason: 'max_tokens', completionTokens: 0, reasoningTokens: 0 });
  const started = (await generate(request({ messages, maxTokens: 1 }))).find((event) => event.type === 'started');
  t.ok(started !== undefined && started.cachedTokens > 16, `${started?.cachedTokens} cached`);
});

t.test('a reasoning budget stated outright is kept to', async (t) => {
  const [few, none] = [await generate(request({ effort: 'enabled', reasoningBudget: 5, ignoreEos: true, maxTokens: 40 })), await generate(request({ effort: 'none', maxTokens: 20 }))];
  t.ok(last(few).reasoningTokens >= 5 && last(few).reasoningTokens <= 12, `${last(few).reasoningTokens} with its markers`);
  t.equal(last(none).reasoningTokens, 0);
});

t.test('truncation leaves out whole turns, oldest first', async (t) => {
  const turn = (n: number): Message[] => [
    { role: 'user', content: `question ${n} ${'word '.repeat(20)}` },
    { role: 'assistant', content: null, toolCalls: [{ id: `c${n}`, name: 'f', arguments: '{}' }] }, { role: 'tool', content: `result ${n}`, toolCallId: `c${n}` },
    { role: 'assistant', content: `answer ${n}` },
  ];
  const messages: Message[] = [{ role: 'system', content: 'Be brief.' }, ...Array.from({ length: 40 }, (_, n) => turn(n)).flat(), { role: 'user', content: 'The last one.' }];
  await t.rejects(prompter.prepare(request({ messages }), 1), { code: 'context_length_exceeded' });
  const asked = request({ messages, truncation: 'auto' });
  const prepared = await prompter.prepare(asked, 1);
  t.ok(prepared.promptTokens <= prompter.contextWindow - 60, `${prepared.promptTokens} leave room for the answer`);
  t.ok(prepared.promptTokens > prompter.contextWindow / 2, 'and no more is left out than needed');
  t.equal(await prompter.count(asked, 1), prepared.promptTokens);
  t.equal((await prompter.prepare(request({ truncation: 'auto' }), 1)).promptTokens, await prompter.count(request(), 1), 'what fits is left alone');
  const hopeless = request({ messages: [{ role: 'user', content: 'word '.repeat(2_000) }], truncation: 'auto' });
  await t.rejects(prompter.prepare(hopeless, 1), { code: 'context_length_exceeded' });
  const huge = request({ messages: [{ role: 'user', content: 'x'.repeat(1 << 22) }, { role: 'assistant', content: 'y' }, { role: 'user', content: 'z' }], truncation: 'auto' });
  t.ok((await prompter.prepare(huge, 1)).promptTokens < 100, 'a huge turn goes without being rendered');
});

t.test('what cannot fit for its length alone costs next to nothing', async (t) => {
  const called = (text: string): Message[] => [
    { role: 'user', content: 'x' }, { role: 'assistant', content: null, toolCalls: [{ id: 'c', name: 'f', arguments: text }] },
    { role: 'tool', toolCallId: 'c', content: 'y' }, { role: 'user', content: 'z' },
  ];
  const size = 20 << 20;
  const cases: Partial<GenerationRequest>[] = [
    { messages: [{ role: 'user', content: 'a'.repeat(size) }] },
    { tools: [tool('f', 'a'.repeat(size))], toolChoice: { mode: 'none', allowed: null } },
    { messages: called(`{"a":[${'1,'.repeat(size / 2)}1]}`) },
    { messages: called(`{"a":${'['.repeat(size / 2)}`) },
    { messages: called(`{"a":[${'1,'.repeat(size / 2)}1]}`).slice(0, 3), truncation: 'auto' },     // the last turn stays
  ];
  await prompter.prepare(request({ messages: called('{}') }), 1);
  await t.rejects(prompter.prepare(request(cases[0]), 1), { code: 'context_length_exceeded' });    // the longest token is known from now on
  const spent = cpuTime();
  for (const more of cases) await t.rejects(prompter.prepare(request(more), 1), { code: 'context_length_exceeded', message: /at least/ });
  t.ok(spent() < 500, `${spent().toFixed()} ms`);
  const dropped = await prompter.prepare(request({ messages: called(`{"a":"${'x'.repeat(size)}"}`), truncation: 'auto' }), 1);
  t.equal(dropped.promptTokens, await prompter.count(request({ messages: [{ role: 'user', content: 'z' }] }), 1));
});

t.test('counts of large parts, in turns', async (t) => {
  const described = (length: number) => request({ tools: [tool('f', 'word '.repeat(length / 5))] });
  const whole = await prompter.count(described(1_000_000), 1);
  const apart = await prompter.count(described(1_100_000), 1);
  t.ok(Math.abs(apart / whole - 1.1) < 0.001, 'what the template is spared is counted all the same');
  const deep = request({ messages: [
    { role: 'user', content: 'x' }, { role: 'assistant', content: null, toolCalls: [{ id: 'c', name: 'f', arguments: `{"a":${'['.repeat(900_000)}` }] }, { role: 'tool', toolCallId: 'c', content: 'y' },
  ] });
  const spent = cpuTime();
  t.ok(await prompter.count(deep, 1) > prompter.contextWindow);
  t.ok(spent() < 2_000, 'arguments nested without end are text');

  const long = request({ messages: [{ role: 'user', content: 'word '.repeat(200_000) }] });
  const client = new AbortController();
  let done = 0;
  const many = Promise.allSettled(Array.from({ length: 20 }, () => prompter.count(long, 1, client.signal).finally(() => done++)));
  await prompter.count(long, 2);
  t.ok(done < 8, `another organization's does not wait behind twenty (${done} were done)`);
  client.abort(new Error('gone'));
  t.match((await many).at(-1), { status: 'rejected', reason: { message: 'gone' } });
});

t.test('images are refused by name, or noted', async (t) => {
  const path = 'messages[0].content[1]';
  const image = { bytes: new Uint8Array(), format: 'png' as const, width: 640, height: 480 };
  const asked = request({ messages: [{ role: 'user', content: [{ type: 'text', text: 'See' }, { type: 'image', source: { kind: 'loaded', image }, detail: 'auto', path }] }] });
  t.throws(() => prompter.check(asked), { code: 'unsupported_content', param: path });
  const noting = prompterOf({ image_input: 'note' });
  noting.check(asked);
  t.ok(await noting.count(asked, 1) > await noting.count(request({ messages: [{ role: 'user', content: 'See' }] }), 1));
  t.throws(() => prompter.check(request({ sampling: { logitBias: [{ token: 1_000_000, bias: 1 }] } })), { code: 'invalid_value', param: 'logit_bias' });
});

t.test('no answer is longer than a client library can read, whatever the window', async (t) => {
  const path = join(t.testdir(), 'script.gguf');
  writeScriptModel(path, { context: 70_000 });
  const wide = new Engine(await loadAddon().load('wide', path, { ...loadOptions, maxContext: 0 }, () => {}));
  t.teardown(() => wide.close());
  t.match(new Prompter(wide, modelOfFile('m', path), limits), { contextWindow: 70_000, maxOutputTokens: 65_535 });
  t.equal(new Prompter(wide, { ...modelOfFile('m', path), context_window: 60_000 }, limits).maxOutputTokens, 59_999);
});
