// Tests calls that are forced on an untrained model: every output that the model samples must be a valid call to one of
// the tools, in every syntax.
import t from 'tap';
import { Engine } from '../../../src/engine/engine.js';
import type { EngineEvent } from '../../../src/engine/events.js';
import type { ToolDefinition } from '../../../src/generation/types.js';
import { loadStarter, promptOf, submitOptions } from '../../addon/starter.js';
import { forcedCall, syntaxes } from './forced-call.js';

const tool = (name: string, parameters: ToolDefinition['parameters']): ToolDefinition => ({
  name,
  description: null,
  parameters,
  strict: true,
  path: name,
});
const tools = [
  tool('set', {
    type: 'object',
    properties: {
      text: { type: 'string', maxLength: 6 },
      count: { type: 'integer', minimum: 0, maximum: 99 },
      on: { type: 'boolean' },
    },
    required: ['text', 'count', 'on'],
    additionalProperties: false,
  }),
  tool('get', {
    type: 'object',
    properties: { where: { enum: ['here', 'there'] } },
    required: ['where'],
    additionalProperties: false,
  }),
];

function fits(name: string, json: string): boolean {
  const value = JSON.parse(json) as Record<string, unknown>;
  if (name === 'get') return value['where'] === 'here' || value['where'] === 'there';
  const { text, count, on } = value;
  return typeof text === 'string' && [...text].length <= 6 && Number.isInteger(count) && typeof on === 'boolean';
}

t.test('a forced call is always valid', async (t) => {
  const native = await loadStarter('bound-calls');
  const engine = new Engine(native);
  t.teardown(() => engine.close());
  const several = new Set<string>();
  for (const [family, syntax] of syntaxes) {
    for (let seed = 0n; seed < 8n; seed++) {
      const { calls, text, reason } = await forcedCall(native, engine, syntax, { tools, seed, parallel: true });
      // The token limit may truncate the last of many calls.
      const cut = reason === 'max_tokens' ? calls.pop() : undefined;
      const right = calls.every(({ name, json, complete }) => complete === true && fits(name, json));
      const ended = reason === 'tool_calls' ? calls.length > 0 : cut !== undefined;
      if (!right || !ended || text.trim() !== '')
        t.fail(`${family}, seed ${seed}: ${JSON.stringify({ calls, text, reason })}`);
      if (calls.length > 1) several.add(family);
    }
    const single = await forcedCall(native, engine, syntax, { tools, seed: 1n, parallel: false });
    t.match(
      single,
      { calls: [{ complete: true }], reason: 'tool_calls', text: /^\s*$/ },
      `${family}: a single call is complete`,
    );
    t.equal(single.calls.length, 1, family);
  }
  for (const [family, syntax] of syntaxes) {
    if (syntax.several === undefined) continue;
    // Discourage the token that ends a list of calls, because the model would end some lists immediately.
    if (
      !several.has(family) &&
      (await forcedCall(native, engine, syntax, { tools, seed: 0n, parallel: true, unwanted: syntax.several.end }))
        .calls.length > 1
    )
      several.add(family);
    t.ok(several.has(family), `${family}: several calls in one section`);
  }
});

t.test('a marker spelled in text also constrains the call, if a token ends with it', async (t) => {
  const native = await loadStarter('bound-spelled');
  const engine = new Engine(native);
  t.teardown(() => engine.close());
  const say = (more: object): Promise<{ content: string; tool: string; first: string; reason: string }> =>
    new Promise((resolve, reject) => {
      const said = { content: '', tool: '', first: '', reason: '' };
      engine.generate(
        submitOptions(promptOf(native, 'Name three colours.'), { maxTokens: 60, ignoreEos: false, ...more }),
        (event: EngineEvent) => {
          if (event.type === 'text') {
            if (event.section === 'tool') said.tool += event.text;
            else said.content += event.text;
            if (said.first === '' && event.text.trim() !== '') said.first = event.text;
          } else if (event.type === 'failed') reject(new Error(event.message));
          else if (event.type === 'finished') resolve({ ...said, reason: event.reason });
        },
      );
    });
  const { first } = await say({});
  const { grammar } = await engine.compileGrammar({
    kind: 'json_schema',
    schema: JSON.stringify({ ...tools[1]!.parameters }),
    strict: true,
    oneOfAsAnyOf: true,
    order: 'schema',
    whiteSpace: 'none',
    suffix: '</end>',
  });
  // The model writes the marker without being forced, as its first output.
  const calls = {
    open: first,
    close: '</end>',
    atStart: false,
    prefixes: ['=get:'],
    grammars: [grammar],
    required: false,
    forbidden: false,
  };
  const { tool: text } = await say({ calls });
  t.ok(text.startsWith(`${first}=get:{"where":"`) && text.endsWith('}</end>'), text);
});
