// Tests that fields without effect, at any depth, are listed in x-ignored-parameters and in the request log. Values
// that have no effect in the vendors' services either are not listed.
import t from 'tap';
import { startScripted } from '../support/script-model.js';
import { Connection } from '../support/web-socket.js';
import { ask, post } from '../support/wire.js';
import { eventually } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const env = { MONOLITH_LIMITS_RPM: 'off', MONOLITH_LIMITS_TPM: 'off', MONOLITH_LIMITS_CONCURRENCY: 'off' };
const server = await startScripted({ models: ['hal-1.0'], args: ['--kv-disk', 'off'], env });
t.teardown(() => server.stop());
const model = 'hal-1.0';

const messages = [{ role: 'user', content: 'A: hi' }];
const parameters = { type: 'object', properties: {} };
const formats = {
  chat: { path: '/v1/chat/completions', body: { messages, max_tokens: 4 } },
  messages: { path: '/v1/messages', body: { messages, max_tokens: 4 } },
  responses: { path: '/v1/responses', body: { input: messages, max_output_tokens: 4, store: false } },
};

const functionTool = (more: object) => [{ type: 'function', function: { name: 'f', parameters, ...more } }];
const responsesTool = (more: object) => [{ type: 'function', name: 'f', parameters, ...more }];
const messagesTool = (more: object) => [{ name: 'f', input_schema: parameters, ...more }];
const userBlock = (block: object) => ({ messages: [{ role: 'user', content: [block] }] });
const textBlock = { type: 'text', text: 'A: hi' };
const document = { type: 'document', source: { type: 'text', data: 'A: hi' } };

const hostedItem = (more: object) => ({
  input: [{ type: 'mcp_call', id: 'm', name: 'f', arguments: '{}', server_label: 's', ...more }, ...messages],
});

const rows: [format: keyof typeof formats, more: object, ignored: string | null][] = [
  ['chat', { verbosity: 'low' }, 'verbosity'],
  ['chat', { verbosity: null }, null],
  ['chat', { store: true }, null],
  ['chat', { store: false }, null],
  ['chat', { prediction: { type: 'content', content: 'x' } }, null],
  ['chat', { prediction: { type: 'content', content: 'x', strength: 1 } }, 'prediction.strength'],
  ['chat', { prompt_cache_retention: '24h' }, 'prompt_cache_retention'],
  ['chat', { prompt_cache_retention: 'in_memory' }, null],
  [
    'chat',
    { prompt_cache_options: { mode: 'explicit', ttl: '12h' } },
    'prompt_cache_options.mode, prompt_cache_options.ttl',
  ],
  ['chat', { prompt_cache_options: { mode: 'implicit', ttl: '30m' } }, null],
  [
    'chat',
    { prompt_cache_options: { comparison_response_id: 'resp_1' } },
    'prompt_cache_options.comparison_response_id',
  ],
  ['chat', { tools: functionTool({ input_examples: [{ a: 1 }] }) }, 'tools.function.input_examples'],
  [
    'chat',
    { unknown: 1, stream_options: undefined, structured_outputs: { whitespace_pattern: '.' } },
    'unknown, structured_outputs.whitespace_pattern',
  ],
  [
    'chat',
    { messages: [{ role: 'user', content: [{ ...textBlock, prompt_cache_breakpoint: { mode: 'explicit' } }] }] },
    null,
  ],
  [
    'chat',
    { messages: [{ role: 'user', content: [{ ...textBlock, prompt_cache_breakpoint: { ttl: '12h' } }] }] },
    'messages.content.prompt_cache_breakpoint',
  ],
  [
    'chat',
    { messages: [...messages, { role: 'assistant', content: 'x', annotations: [], audio: null }, ...messages] },
    null,
  ],
  ['chat', { stream: true, stream_options: { include_obfuscation: true } }, 'stream_options.include_obfuscation'],
  ['chat', { stream: true, stream_options: { include_obfuscation: false } }, null],
  [
    'chat',
    { response_format: { type: 'json_schema', json_schema: { name: 's', schema: parameters, description: 'x' } } },
    'response_format.json_schema.description',
  ],
  ['messages', { thinking: { type: 'between_tools' } }, 'thinking.type'],
  [
    'messages',
    { tools: [{ type: 'text_editor_20250728', name: 'str_replace_based_edit_tool', max_characters: 9, strict: true }] },
    'tools.max_characters, tools.strict',
  ],
  [
    'messages',
    {
      tools: [
        { type: 'computer_20250124', name: 'computer', display_width_px: 9, display_height_px: 9, display_number: 1 },
      ],
    },
    'tools.display_number',
  ],
  ['messages', { tools: [{ type: 'web_search_20250305', name: 'web_search', max_uses: 1 }] }, null],
  [
    'messages',
    userBlock({ type: 'mcp_tool_result', tool_use_id: 'x', is_error: true, content: [{ type: 'text', text: 'A: x' }] }),
    'messages.content.is_error',
  ],
  ['messages', { thinking: { type: 'adaptive', display: 'updates' } }, 'thinking.display'],
  ['messages', { output_config: { task_budget: { type: 'tokens', total: 1000 } } }, 'output_config.task_budget'],
  ['messages', { speed: 'fast', inference_geo: 'us' }, 'inference_geo, speed'],
  ['messages', { speed: 'standard' }, null],
  ['messages', { diagnostics: { previous_message_id: 'msg_1' } }, null],
  ['messages', { diagnostics: { previous_message_id: null, detail: 'full' } }, 'diagnostics.detail'],
  [
    'messages',
    { context_management: { edits: [{ type: 'compact_20260112', model: 'x' }] } },
    'context_management.edits.model',
  ],
  ['messages', { context_management: { edits: [] } }, null],
  ['messages', { cache_control: { type: 'ephemeral' } }, null],
  ['messages', { cache_control: { type: 'ephemeral', ttl: '5m' } }, null],
  ['messages', { cache_control: { type: 'ephemeral', ttl: '1h' } }, 'cache_control'],
  ['messages', userBlock({ ...textBlock, cache_control: { type: 'ephemeral' } }), null],
  [
    'messages',
    userBlock({ ...textBlock, cache_control: { type: 'ephemeral', ttl: '1h' } }),
    'messages.content.cache_control',
  ],
  ['messages', userBlock({ ...document, citations: { enabled: true } }), 'messages.content.citations'],
  ['messages', userBlock({ ...document, citations: { enabled: false } }), null],
  [
    'messages',
    {
      tools: messagesTool({
        input_examples: [{}, { a: 1 }],
        allowed_callers: ['code_execution_20250825'],
        defer_loading: true,
      }),
    },
    'tools.input_examples, tools.allowed_callers',
  ],
  [
    'messages',
    { tools: messagesTool({ allowed_callers: ['direct'], defer_loading: false, eager_input_streaming: true }) },
    null,
  ],
  ['responses', { text: { verbosity: 'high' } }, 'text.verbosity'],
  ['responses', { prompt_cache_retention: '24h' }, 'prompt_cache_retention'],
  ['responses', { prompt_cache_options: { comparison_response_id: 'resp_1', mode: 'implicit', ttl: '30m' } }, null],
  [
    'responses',
    { prompt_cache_options: { mode: 'explicit', ttl: '12h', scope: 'x' } },
    'prompt_cache_options.scope, prompt_cache_options.mode, prompt_cache_options.ttl',
  ],
  ['responses', { context_management: [{ type: 'compaction', compact_threshold: 1000 }] }, null],
  ['chat', { context_management: { edits: [] } }, 'context_management'],
  ['responses', { reasoning: { mode: 'pro', context: 'all_turns' } }, 'reasoning.mode, reasoning.context'],
  ['responses', { reasoning: { mode: 'standard', context: 'auto' } }, null],
  [
    'responses',
    {
      tools: responsesTool({
        async: true,
        output_schema: { type: 'object' },
        allowed_callers: ['programmatic'],
        defer_loading: true,
      }),
    },
    'tools.async, tools.output_schema, tools.allowed_callers, tools.defer_loading',
  ],
  ['responses', hostedItem({ approval_request_id: 'a', status: 'completed' }), null],
  ['responses', hostedItem({ agent: { agent_name: 'x' } }), 'input.agent'],
  [
    'responses',
    { input: [{ type: 'agent_message', author: 'a', recipient: 'b', content: 'A: hi' }] },
    'input.author, input.recipient',
  ],
  [
    'responses',
    { text: { format: { type: 'json_schema', name: 's', schema: parameters, description: 'x' } } },
    'text.format.description',
  ],
  ['responses', { tools: responsesTool({ async: false, output_schema: null }) }, null],
  [
    'responses',
    {
      input: [
        ...messages,
        { role: 'assistant', content: [{ type: 'output_text', text: 'x', annotations: [{}], logprobs: [] }] },
        ...messages,
      ],
    },
    null,
  ],
];

t.test('each field without effect is listed', async (t) => {
  for (const [format, more, expected] of rows) {
    const { path, body } = formats[format];
    const response = await post(server, path, { model, ...body, ...more });
    const { status, headers } = response;
    const text = await response.text();
    t.equal(status, 200, `${format} ${JSON.stringify(more)} ${text.slice(0, 200)}`);
    t.equal(headers.get('x-ignored-parameters'), expected, `${format} ${JSON.stringify(more)}`);
  }
});

t.test('verbosity is echoed only if it has an effect', async (t) => {
  const { path, body } = formats.responses;
  const send = async (to: typeof server) => {
    const { headers, body: answer } = await ask(to, path, { model, ...body, text: { verbosity: 'low' } });
    return [headers.get('x-ignored-parameters'), (answer as { text: { verbosity?: string } }).text.verbosity];
  };
  t.same(await send(server), ['text.verbosity', undefined]);
  const knowing = await startScripted({
    models: [model],
    env,
    templateHead: "{{ 'verbosity ' ~ verbosity|default('-') }}",
  });
  t.teardown(() => knowing.stop());
  t.same(await send(knowing), [null, 'low']);
  const applied = await ask(knowing, '/apply-template', { model, messages, verbosity: 'low' });
  t.match((applied.body as { prompt: string }).prompt, /verbosity low/);
  t.equal(applied.headers.get('x-ignored-parameters'), null);
  const both = await ask(knowing, '/v1/chat/completions', {
    model,
    messages,
    verbosity: 'low',
    chat_template_kwargs: { verbosity: 'high' },
  });
  t.equal(both.status, 422);
  t.match(both.body, { error: { code: 'conflicting_parameters' } });
});

t.test('/v1/models does not claim support for thinking between tools', async (t) => {
  const response = await fetch(`${server.url}/v1/models/${model}`, {
    headers: { 'x-api-key': server.key, 'anthropic-version': '2023-06-01' },
  });
  t.match(await response.json(), { capabilities: { thinking: { types: { between_tools: { supported: false } } } } });
});

t.test('the header has at most 20 names and the log has all of them', async (t) => {
  const { path, body } = formats.chat;
  const names = Array.from({ length: 30 }, (_, at) => `unknown_${at}`);
  const { headers } = await ask(server, path, {
    model,
    ...body,
    ...Object.fromEntries(names.map((name) => [name, 1])),
  });
  t.equal(headers.get('x-ignored-parameters'), `${names.slice(0, 20).join(', ')}, and more`);
  const logged = async (requestId: string, field: string): Promise<unknown> => {
    const found = (): string | undefined =>
      server
        .log()
        .split('\n')
        .find((line) => line.includes(requestId) && line.includes(field));
    t.ok(await eventually(() => found() !== undefined), `${field} is logged`);
    return (JSON.parse(found() ?? '{}') as Record<string, unknown>)[field];
  };
  t.equal(await logged(headers.get('x-request-id')!, 'ignored_parameters'), names.join(', '));

  const properties = Object.fromEntries(
    Array.from({ length: 20 }, (_, at) => [
      `p${at}`,
      { type: 'array', items: { enum: [['a'], ['b']] }, maxItems: 2, uniqueItems: true },
    ]),
  );
  const json_schema = { name: 's', schema: { type: 'object', properties } };
  const formatted = await ask(server, path, { model, ...body, response_format: { type: 'json_schema', json_schema } });
  t.equal(formatted.status, 200, formatted.text);
  t.match(formatted.headers.get('x-ignored-schema-keywords'), /, and more$/);
  const keywords = await logged(formatted.headers.get('x-request-id')!, 'ignored_schema_keywords');
  t.equal((keywords as string).split(', ').length, 20, 'all schema keywords');

  const { path: responses, body: input } = formats.responses;
  const left = Array.from({ length: 20 }, () => ({ type: 'ghost_snapshot' }));
  const other = await ask(server, responses, {
    model,
    ...input,
    input: [...left, ...messages],
    tools: [{ type: 'web_search' }, { type: 'mcp', server_label: 'x' }],
  });
  const id = other.headers.get('x-request-id')!;
  t.equal(await logged(id, 'ignored_tools'), 'web_search, mcp');
  t.equal(await logged(id, 'ignored_content'), left.map((_, at) => `input[${at}]`).join(', '));
});

t.test('the log lists the ignored fields of a WebSocket turn', async (t) => {
  const connection = await Connection.open(server);
  t.teardown(() => connection.socket.terminate());
  await connection.turn({
    model,
    store: false,
    max_output_tokens: 4,
    input: [{ type: 'ghost_snapshot' }, ...messages],
    tools: responsesTool({ async: true }),
  });
  const line = (): string | undefined =>
    server
      .log()
      .split('\n')
      .find(
        (one) => one.includes('"ignored_parameters":"tools.async"') && one.includes('"ignored_content":"input[0]"'),
      );
  t.ok(await eventually(() => line() !== undefined));
});
