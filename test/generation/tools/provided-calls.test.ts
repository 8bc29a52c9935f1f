// Tests the local provider with each family's template: reasoning, followed by a forced call or by formatted output.
import t from 'tap';
import { modelOfFile } from '../../../src/engine/catalog.js';
import { Engine } from '../../../src/engine/engine.js';
import { LocalProvider } from '../../../src/generation/local/local-provider.js';
import type { GenerationEvent, GenerationRequest, ToolDefinition } from '../../../src/generation/types.js';
import { loadStarter, starterPath } from '../../addon/starter.js';
import { templates } from './family-templates.js';

const limits = {
  queueWaitMs: 10_000,
  maxGenerationMs: 60_000,
  grammar: { whiteSpace: 'compact', callWhiteSpace: 'compact' },
  images: { perImage: 1_000, perRequest: 10_000 },
} as const;

/** Returns the engine as if its file had a different template. */
function withTemplate(engine: Engine, chatTemplate: string): Engine {
  return new Proxy(engine, {
    get(target, key): unknown {
      if (key === 'info') return { ...target.info, chatTemplate };
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

const tool: ToolDefinition = {
  name: 'set',
  description: 'Sets it.',
  strict: true,
  path: 'tools.set',
  parameters: {
    type: 'object',
    properties: { text: { type: 'string', maxLength: 6 }, count: { type: 'integer', minimum: 0, maximum: 9 } },
    required: ['text', 'count'],
    additionalProperties: false,
  },
};

function request(more: Partial<GenerationRequest>): GenerationRequest {
  return {
    model: 'm',
    messages: [{ role: 'user', content: 'Set it.' }],
    continueFinal: false,
    sampling: { temperature: 1, seed: 3n },
    n: 1,
    maxTokens: 200,
    stop: [],
    topLogprobs: null,
    effort: 'medium',
    reasoningBudget: 5,
    tools: [],
    toolChoice: { mode: 'none', allowed: null },
    parallelToolCalls: false,
    format: { type: 'text' },
    truncation: 'disabled',
    promptParam: 'messages',
    ignoreEos: false,
    ...more,
  };
}

async function run(provider: LocalProvider, asked: GenerationRequest): Promise<GenerationEvent[]> {
  const prepared = await provider.prepare(asked, { organization: 1 });
  return new Promise((resolve) => {
    const events: GenerationEvent[] = [];
    prepared.start((event) => {
      events.push(event);
      if (event.type === 'failed' || event.type === 'finished') resolve(events);
    });
  });
}

const textOf = (events: readonly GenerationEvent[], section: string): string =>
  events.map((event) => (event.type === 'text' && event.section === section ? event.text : '')).join('');
const argumentsOf = (events: readonly GenerationEvent[]): string =>
  events.map((event) => (event.type === 'call_arguments' ? event.text : '')).join('');

t.test('reasons, then makes a forced call, under every template', async (t) => {
  const engine = new Engine(await loadStarter('provided-calls', { maxContext: 2_048 }));
  t.teardown(() => engine.close());
  for (const [family, source] of Object.entries(templates)) {
    const provider = new LocalProvider(withTemplate(engine, source), modelOfFile('m', starterPath), limits);
    const events = await run(provider, request({ tools: [tool], toolChoice: { mode: 'required', allowed: null } }));
    t.match(events.at(-1), { type: 'finished', reason: 'tool_calls', calls: 1 }, family);
    t.match(JSON.parse(argumentsOf(events)), { text: String, count: Number }, family);
    t.equal(textOf(events, 'content').trim(), '', family);
  }
});

// `thinks`: the template has reasoning markers.
const inMessages: readonly { family: string; answer: string; call: string; thinks?: true }[] = [
  {
    family: 'harmony',
    thinks: true,
    answer: '<|start|>assistant<|channel|>final<|message|>',
    call: '<|start|>assistant<|channel|>commentary to=functions.set <|constrain|>json<|message|>',
  },
  {
    family: 'solar',
    thinks: true,
    answer: '<|begin|>assistant<|content|>',
    call: '<|begin|>assistant<|tool_calls|><|tool_call:begin|>0<|tool_call:name|>set<|tool_call:args|>',
  },
  { family: 'functionary-named', answer: '>>>all\n', call: '>>>set\n' },
];

for (const { family, answer: answerHead, call: callHead, thinks = false } of inMessages) {
  t.test(`${family}: clients receive no headers`, async (t) => {
    const engine = new Engine(await loadStarter(`provided-${family}`, { maxContext: 2_048 }));
    t.teardown(() => engine.close());
    const provider = new LocalProvider(withTemplate(engine, templates[family]!), modelOfFile('m', starterPath), limits);
    const plain = await run(provider, request({ maxTokens: 40 }));
    t.equal(textOf(plain, 'reasoning') !== '', thinks);
    t.not(textOf(plain, 'content'), '');
    const schema = {
      type: 'object',
      properties: { a: { enum: ['x', 'y'] } },
      required: ['a'],
      additionalProperties: false,
    };
    const form = await run(
      provider,
      request({ format: { type: 'json_schema', name: 'f', schema, strict: true, path: 'p' } }),
    );
    t.match(JSON.parse(textOf(form, 'content')), { a: /^[xy]$/ });
    const called = await run(provider, request({ tools: [tool], toolChoice: { mode: 'required', allowed: null } }));
    t.equal(textOf(called, 'reasoning') !== '', thinks);
    for (const events of [plain, form, called])
      t.notMatch(textOf(events, 'content') + textOf(events, 'reasoning'), /<\||>>>/);
  });

  t.test(`${family}: allows a format and tools together`, async (t) => {
    const engine = new Engine(await loadStarter(`provided-both-${family}`, { maxContext: 2_048 }));
    t.teardown(() => engine.close());
    const provider = new LocalProvider(withTemplate(engine, templates[family]!), modelOfFile('m', starterPath), limits);
    const schema = {
      type: 'object',
      properties: { a: { enum: ['x', 'y'] } },
      required: ['a'],
      additionalProperties: false,
    };
    const other: ToolDefinition = { ...tool, name: 'other', path: 'tools.other' };
    const both = (more: Partial<GenerationRequest>): GenerationRequest =>
      request({
        format: { type: 'json_schema', name: 'f', schema, strict: true, path: 'p' },
        tools: [tool, other],
        toolChoice: { mode: 'auto', allowed: null },
        ...more,
      });
    const isForm = (events: readonly GenerationEvent[]): boolean =>
      argumentsOf(events) === '' && /^\{"a":"[xy]"\}$/.test(textOf(events, 'content'));
    const names = (events: readonly GenerationEvent[]): string[] =>
      events.flatMap((event) => (event.type === 'call_started' ? [event.name] : []));
    const isCall = (events: readonly GenerationEvent[]): boolean => {
      const { text, count } = JSON.parse(argumentsOf(events)) as Record<string, unknown>;
      return (
        textOf(events, 'content') === '' &&
        names(events).length === 1 &&
        typeof text === 'string' &&
        Number.isInteger(count)
      );
    };
    // If the headers of a response and of a call differ, the first different token decides between the two.
    const encode = (text: string): Promise<Int32Array> =>
      engine.tokenize(text, { addSpecial: false, parseSpecial: true, guard: 0 });
    const answer = await encode(answerHead);
    const call = await encode(callHead);
    const parts = answer.findIndex((token, index) => token !== call[index]);
    const towards = (token: number): Pick<GenerationRequest, 'sampling'> => ({
      sampling: { temperature: 1, seed: 3n, logitBias: [{ token, bias: 40 }] },
    });

    for (const budget of [0, 5]) {
      const form = await run(provider, both({ ...towards(answer[parts]!), reasoningBudget: budget }));
      t.ok(isForm(form), `the response has the requested format: ${textOf(form, 'content')}`);
      t.match(form.at(-1), { type: 'finished', reason: 'end_of_turn', calls: 0 });
      const called = await run(provider, both({ ...towards(call[parts]!), reasoningBudget: budget }));
      t.ok(isCall(called), `a call: ${argumentsOf(called)}`);
      t.match(called.at(-1), { type: 'finished', reason: 'tool_calls', calls: 1 });
      for (const events of [form, called]) {
        if (thinks || budget === 0) t.equal(textOf(events, 'reasoning') !== '', budget > 0);
        t.notMatch(textOf(events, 'content') + textOf(events, 'reasoning'), /<\||>>>/);
      }
    }
    // After a header that the model closes by itself, every sample must also be either a formatted response or a call.
    const end = (await encode('<|end|>'))[0]!;
    for (let seed = 0n; seed < 4n; seed++) {
      const events = await run(
        provider,
        both({ sampling: { temperature: 1.5, seed, logitBias: [{ token: end, bias: 4 }] }, reasoningBudget: 30 }),
      );
      t.ok(isForm(events) || isCall(events), `seed ${seed}`);
    }
    t.ok(
      isForm(await run(provider, both({ ...towards(call[parts]!), toolChoice: { mode: 'none', allowed: null } }))),
      'tools that must not be called are not called',
    );
    t.ok(
      isCall(
        await run(provider, both({ ...towards(answer[parts]!), toolChoice: { mode: 'required', allowed: null } })),
      ),
      'a required call is made',
    );
    t.same(
      names(await run(provider, both({ toolChoice: { mode: 'required', allowed: ['other'] } }))),
      ['other'],
      'the required tool is called',
    );
    t.same(
      names(await run(provider, both({ ...towards(call[parts]!), toolChoice: { mode: 'auto', allowed: ['other'] } }))),
      ['other'],
      'only the allowed tool is called',
    );
    // Only tokens that are sampled one by one have log probabilities.
    const told = await run(provider, both({ ...towards(answer[parts]!), topLogprobs: 0 }));
    t.ok(isForm(told));
  });
}
