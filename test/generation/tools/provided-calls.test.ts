// The provider on the embedded model under each family's template: thinking, then a call that must come, or a form.
import t from 'tap';
import { modelOfFile } from '../../../src/engine/catalog.js';
import { Engine } from '../../../src/engine/engine.js';
import { LocalProvider } from '../../../src/generation/local/local-provider.js';
import type { GenerationEvent, GenerationRequest, ToolDefinition } from '../../../src/generation/types.js';
import { loadStarter, starterPath } from '../../addon/starter.js';
import { templates } from './family-templates.js';

const limits = { queueWaitMs: 10_000, maxGenerationMs: 60_000, grammar: { whiteSpace: 'compact', callWhiteSpace: 'compact' }, images: { perImage: 1_000, perRequest: 10_000 } } as const;

/** The engine, as if its file had another template. */
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
  name: 'set', description: 'Sets it.', strict: true, path: 'tools.set',
  parameters: { type: 'object', properties: { text: { type: 'string', maxLength: 6 }, count: { type: 'integer', minimum: 0, maximum: 9 } }, required: ['text', 'count'], additionalProperties: false },
};

function request(more: Partial<GenerationRequest>): GenerationRequest {
  return {
    model: 'm', messages: [{ role: 'user', content: 'Set it.' }], continueFinal: false, sampling: { temperature: 1, seed: 3n }, n: 1, maxTokens: 200,
    stop: [], topLogprobs: null, effort: 'medium', reasoningBudget: 5, tools: [], toolChoice: { mode: 'none', allowed: null }, parallelToolCalls: false,
    format: { type: 'text' }, truncation: 'disabled', promptParam: 'messages', ignoreEos: false, ...more,
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

const textOf = (events: readonly GenerationEvent[], section: string): string => events.map((event) => (event.type === 'text' && event.section === section ? event.text : '')).join('');
const argumentsOf = (events: readonly GenerationEvent[]): string => events.map((event) => (event.type === 'call_arguments' ? event.text : '')).join('');

t.test('thinking, and a call that must come, under every template', async (t) => {
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

t.test('channels: what a client hears has no headers', async (t) => {
  const engine = new Engine(await loadStarter('provided-channels', { maxContext: 2_048 }));
  t.teardown(() => engine.close());
  const provider = new LocalProvider(withTemplate(engine, templates['harmony']!), modelOfFile('m', starterPath), limits);
  const plain = await run(provider, request({ maxTokens: 40 }));
  t.not(textOf(plain, 'reasoning'), '');
  t.not(textOf(plain, 'content'), '');
  const schema = { type: 'object', properties: { a: { enum: ['x', 'y'] } }, required: ['a'], additionalProperties: false };
  const form = await run(provider, request({ format: { type: 'json_schema', name: 'f', schema, strict: true, path: 'p' } }));
  t.match(JSON.parse(textOf(form, 'content')), { a: /^[xy]$/ });
  const called = await run(provider, request({ tools: [tool], toolChoice: { mode: 'required', allowed: null } }));
  t.not(textOf(called, 'reasoning'), '');
  for (const events of [plain, form, called]) t.notMatch(textOf(events, 'content') + textOf(events, 'reasoning'), /<\|/);
});
