import t from 'tap';
import { z } from 'zod';
import { jsonObject } from '../../src/http/json.js';
import { ApiError } from '../../src/shared/errors.js';
import { KeyRing } from '../../src/accounts/sealing/key-ring.js';
import { KeySealer } from '../../src/accounts/sealing/key-sealer.js';
import { list } from '../../src/protocol/list.js';
import { MAX_THINKING_BLOCKS } from '../../src/protocol/messages/bounds.js';
import { parseMessages, type MessagesGeneration } from '../../src/protocol/messages/parse.js';
import type { ThinkingPolicy } from '../../src/protocol/messages/thinking.js';
import { cpuTime } from '../support/cpu-time.js';

const sealer = new KeySealer(new KeyRing([Buffer.alloc(32, 1)]), ['m', 'other']);
const policy: ThinkingPolicy = { sealer, organizationId: 'org_a', foreignThinking: 'reject' };
const here = { organizationId: 'org_a', model: 'm' };
const user = { role: 'user', content: 'Hi' };
const tool = { name: 'get_weather', input_schema: { type: 'object' } };
const use = (id: string, input: object = {}) => ({ type: 'tool_use', id, name: 'get_weather', input });
const result = (id: string, content: unknown = 'ok', more: object = {}) => ({
  type: 'tool_result',
  tool_use_id: id,
  content,
  ...more,
});
const thought = (text: string, model = 'm') => ({
  type: 'thinking',
  thinking: text,
  signature: sealer.signThinking(text, { ...here, model }),
});

const parse = (change: object, more: Partial<ThinkingPolicy> = {}): MessagesGeneration =>
  parseMessages(
    { model: 'm', max_tokens: 2_000, messages: [user], ...change },
    { ...policy, ...more },
    'generate',
  ).content();
const messagesOf = (messages: unknown[], change: object = {}) => parse({ messages, ...change }).request.messages;
/** Returns the messages without their positions, which are tested separately. */
const bare = (messages: unknown[], change: object = {}) =>
  messagesOf(messages, change).map(({ path: _, ...message }) => JSON.parse(JSON.stringify(message)) as unknown);

/** Returns [code, param] of the refusal. The refusal's status must match the stage that raised it. */
function refusal(
  change: object,
  more: Partial<ThinkingPolicy> = {},
  purpose: 'generate' | 'count' = 'generate',
): [string, string | null] {
  let stage = 'shape';
  try {
    const parsed = parseMessages(
      { model: 'm', max_tokens: 2_000, messages: [user], ...change },
      { ...policy, ...more },
      purpose,
    );
    stage = 'content';
    parsed.content();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (
      stage === 'shape' &&
      error.status === 422 &&
      error.code !== 'array_too_long' &&
      error.code !== 'too_many_entries'
    )
      throw new Error(`${error.code} was raised before the model was looked up`);
    if (stage === 'content' && error.status !== 422)
      throw new Error(`${error.code} was raised after the model was looked up`);
    return [error.code, error.param];
  }
  return ['accepted', null];
}

t.test('a minimal request and every field are parsed', async (t) => {
  const plain = parse({});
  t.match(plain, { stream: false, visibleThinking: true, userId: null, ignored: [] });
  t.match(plain.request, {
    model: 'm',
    messages: [{ role: 'user', content: 'Hi' }],
    continueFinal: false,
    n: 1,
    maxTokens: 2_000,
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
  });
  const full = parse({
    stream: true,
    stop_sequences: ['a', 'b'],
    temperature: 0.5,
    top_p: 0.9,
    top_k: 5_000,
    min_p: 0.1,
    seed: -7,
    repetition_penalty: 1.1,
    frequency_penalty: 1,
    presence_penalty: -1,
    logit_bias: { 5: 1 },
    tools: [{ ...tool, type: 'custom', description: 'd', strict: true, cache_control: {}, defer_loading: true }],
    tool_choice: { type: 'any', disable_parallel_tool_use: true },
    thinking: { type: 'enabled', budget_tokens: 1_024, display: 'omitted' },
    output_config: { format: { type: 'json_schema', schema: { type: 'object' } }, effort: 'high' },
    metadata: { user_id: 'u' },
    service_tier: 'standard_only',
    speed: 'fast',
    cache_control: {},
    inference_geo: 'x',
    diagnostics: {},
    context_management: { edits: [] },
    container: null,
    mcp_servers: [],
    made_up: 1,
  });
  t.match(full, { stream: true, visibleThinking: false, userId: 'u' });
  t.match(full.request, {
    stop: ['a', 'b'],
    effort: 'enabled',
    reasoningBudget: 1_024,
    parallelToolCalls: false,
    toolChoice: { mode: 'required', allowed: null },
    sampling: {
      temperature: 0.5,
      topP: 0.9,
      topK: 1_000,
      minP: 0.1,
      seed: -7n,
      repetitionPenalty: 1.1,
      frequencyPenalty: 1,
      presencePenalty: -1,
      logitBias: [{ token: 5, bias: 1 }],
    },
    tools: [{ name: 'get_weather', description: 'd', parameters: { type: 'object' }, strict: true }],
    format: {
      type: 'json_schema',
      name: null,
      schema: { type: 'object' },
      strict: true,
      path: 'output_config.format.schema',
    },
  });
});

t.test('null counts as absent wherever it is allowed', async (t) => {
  const names = [
    'system',
    'stop_sequences',
    'stream',
    'temperature',
    'top_p',
    'top_k',
    'tools',
    'tool_choice',
    'thinking',
    'output_config',
    'output_format',
    'metadata',
    'service_tier',
    'speed',
    'container',
    'mcp_servers',
    'thread',
  ];
  t.same(parse(Object.fromEntries(names.map((name) => [name, null]))).request, parse({}).request);
  t.same(
    parse({ output_config: { format: null, effort: null }, metadata: { user_id: null } }).request,
    parse({}).request,
  );
});

t.test('thinking and effort settings are parsed', async (t) => {
  const settings = (change: object) => {
    const { effort, reasoningBudget } = parse(change).request;
    return [effort, reasoningBudget];
  };
  t.same(settings({ thinking: { type: 'disabled' } }), ['none', null]);
  t.same(settings({ thinking: { type: 'between_tools' } }), ['none', null]);
  t.same(settings({ output_config: { effort: 'max' } }), ['none', null], 'an effort does not turn thinking on');
  t.same(settings({ thinking: { type: 'adaptive' } }), ['enabled', null]);
  t.same(settings({ thinking: { type: 'adaptive' }, output_config: { effort: 'xhigh' } }), ['xhigh', null]);
  t.same(settings({ thinking: { type: 'enabled', budget_tokens: 1_999 } }), ['enabled', 1_999]);
  for (const budget of [1_023, 2_000, 2_001])
    t.same(refusal({ thinking: { type: 'enabled', budget_tokens: budget } }), [
      'value_out_of_range',
      'thinking.budget_tokens',
    ]);
  t.same(refusal({ thinking: { type: 'enabled' } }), ['missing_required_parameter', 'thinking.budget_tokens']);
  t.same(refusal({ thinking: { type: 'sometimes' } }), ['unknown_variant', 'thinking.type']);
});

t.test('system may be a string, blocks or messages', async (t) => {
  t.same(bare([user], { system: 'Be brief.' }), [{ role: 'system', content: 'Be brief.' }, user]);
  t.same(
    bare([user], {
      system: [
        { type: 'text', text: 'a', cache_control: {} },
        { type: 'text', text: '' },
        { type: 'text', text: 'b' },
      ],
    }),
    [{ role: 'system', content: 'a\n\nb' }, user],
  );
  t.same(
    bare([{ role: 'system', content: 'a' }, user, { role: 'system', content: [{ type: 'text', text: 'b' }] }, user], {
      system: 's',
    }),
    [{ role: 'system', content: 's\n\na' }, user, { role: 'system', content: 'b' }, user],
    'a later system message keeps its position',
  );
  t.same(bare([user], { system: '' }), [user]);
  t.same(bare([user], { system: [] }), [user]);
});

t.test("the client's attribution line, which changes with every request, is omitted", async (t) => {
  const line = 'x-anthropic-billing-header: cc_version=2; cch=4711;';
  const kept = [{ role: 'system', content: 'You are.' }, user];
  t.same(
    bare([user], {
      system: [
        { type: 'text', text: line },
        { type: 'text', text: 'You are.' },
      ],
    }),
    kept,
  );
  t.same(bare([user], { system: `${line}\n${line}\r\n\nYou are.` }), kept);
  t.same(bare([user], { system: [{ type: 'text', text: `${line}\nYou are.` }] }), kept);
  t.same(bare([{ role: 'system', content: `${line}\nYou are.` }, user]), kept);
  t.same(bare([user], { system: line }), [user], 'the line is omitted even if there is no other system text');
  t.same(
    bare([user], { system: `You are.\n${line}` }),
    [{ role: 'system', content: `You are.\n${line}` }, user],
    'the line is kept if it is not at the start',
  );
});

t.test('consecutive messages with the same role are merged, and empty texts are dropped', async (t) => {
  t.same(
    bare([
      user,
      {
        role: 'user',
        content: [
          { type: 'text', text: '' },
          { type: 'text', text: 'there' },
        ],
      },
      { role: 'assistant', content: 'Yo' },
      { role: 'assistant', content: 'u.' },
      user,
    ]),
    [{ role: 'user', content: 'Hi\n\nthere' }, { role: 'assistant', content: 'You.' }, user],
  );
  t.same(
    bare([{ role: 'assistant', content: 'I first.' }, user]),
    [{ role: 'assistant', content: 'I first.' }, user],
    'the first message may have any role',
  );
  for (const content of ['', [], [{ type: 'text', text: '' }]])
    t.same(refusal({ messages: [user, { role: 'user', content }] }), [
      'missing_required_parameter',
      'messages[1].content',
    ]);
  t.same(refusal({ messages: [user, { role: 'assistant', content: '' }, user] }), [
    'missing_required_parameter',
    'messages[1].content',
  ]);
  t.same(
    bare([user, { role: 'assistant', content: [{ type: 'text', text: '' }] }, user]),
    [{ role: 'user', content: 'Hi\n\nHi' }],
    'an empty earlier response is accepted',
  );
  t.same(refusal({ messages: [{ role: 'assistant', content: [{ type: 'text', text: '' }] }] }), [
    'missing_required_parameter',
    'messages',
  ]);
  t.same(refusal({ messages: [] }), ['missing_required_parameter', 'messages']);
});

t.test('a prefilled assistant message is continued', async (t) => {
  const begun = [user, { role: 'assistant', content: 'The answer is (' }];
  const { request } = parse({ messages: begun });
  t.equal(request.continueFinal, true);
  t.match(request.messages.at(-1), { role: 'assistant', content: 'The answer is (' });
  t.same(refusal({ messages: begun, thinking: { type: 'adaptive' } }), ['conflicting_parameters', 'thinking']);
  t.same(refusal({ messages: begun, output_config: { format: { type: 'json_schema', schema: { type: 'object' } } } }), [
    'conflicting_parameters',
    'output_config.format',
  ]);
  t.equal(
    parse({ messages: [user, { role: 'assistant', content: [thought('hm')] }] }).request.continueFinal,
    false,
    'a message that contains only thinking is not continued',
  );
});

t.test('tool calls and their results are parsed', async (t) => {
  const assistant = { role: 'assistant', content: [{ type: 'text', text: 'Look.' }, use('a', { n: 1 }), use('b')] };
  t.same(
    bare([
      user,
      assistant,
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Also:' },
          result('b', undefined, { is_error: true }),
          result('a', [
            { type: 'text', text: 'x' },
            { type: 'text', text: 'y' },
          ]),
        ],
      },
    ]),
    [
      user,
      {
        role: 'assistant',
        content: 'Look.',
        toolCalls: [
          { id: 'a', name: 'get_weather', arguments: '{"n":1}' },
          { id: 'b', name: 'get_weather', arguments: '{}' },
        ],
      },
      { role: 'tool', content: 'ok', toolCallId: 'b', failed: true },
      { role: 'tool', content: 'x\n\ny', toolCallId: 'a', failed: false },
      { role: 'user', content: 'Also:' },
    ],
    'tool results come first, then the rest of the message',
  );
  const twoMessages = [
    user,
    assistant,
    { role: 'user', content: [result('a')] },
    { role: 'user', content: [result('b')] },
  ];
  t.equal(bare(twoMessages).length, 4, 'results may be in consecutive messages');
  t.same(
    bare([
      user,
      { role: 'assistant', content: [use('a')] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a' }] },
    ])[2],
    { role: 'tool', content: '', toolCallId: 'a', failed: false },
    'a result may have no content',
  );
  t.equal(
    (
      messagesOf([user, { role: 'assistant', content: [use('a')] }, { role: 'user', content: [result('a')] }])[1] as {
        content: unknown;
      }
    ).content,
    null,
  );

  t.same(refusal({ messages: [user, assistant, { role: 'user', content: [result('a')] }] }), [
    'missing_tool_output',
    'messages[1].content[2]',
  ]);
  t.same(refusal({ messages: [user, assistant] }), ['missing_tool_output', 'messages[1].content[1]']);
  t.same(refusal({ messages: [user, assistant, user] }), ['missing_tool_output', 'messages[1].content[1]']);
  t.same(refusal({ messages: [{ role: 'user', content: [result('x')] }] }), [
    'tool_call_not_found',
    'messages[0].content[0].tool_use_id',
  ]);
  t.same(
    refusal({
      messages: [...twoMessages, { role: 'assistant', content: 'ok' }, { role: 'user', content: [result('a')] }],
    }),
    ['tool_call_not_found', 'messages[5].content[0].tool_use_id'],
    'the call already has a result',
  );
  t.same(refusal({ messages: [user, { role: 'assistant', content: [use('a'), use('a')] }] }), [
    'invalid_value',
    'messages[1].content[1].id',
  ]);
  t.same(refusal({ messages: [user, { role: 'assistant', content: [use('')] }] }), [
    'invalid_value',
    'messages[1].content[0].id',
  ]);
  t.same(refusal({ messages: [user, { role: 'assistant', content: [use('x'.repeat(1_001))] }] }), [
    'string_too_long',
    'messages[1].content[0].id',
  ]);
});

t.test('images, documents and search results are parsed', async (t) => {
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'QUJD' } };
  const content = [
    { type: 'text', text: 'a' },
    { type: 'text', text: 'b' },
    image,
    { type: 'image', source: { type: 'url', url: 'https://x.test/y.png' } },
    { type: 'text', text: 'c' },
  ];
  t.same(messagesOf([{ role: 'user', content }])[0]?.content, [
    { type: 'text', text: 'a\n\nb' },
    { type: 'image', source: { kind: 'base64', data: 'QUJD' }, detail: 'auto', path: 'messages[0].content[2]' },
    {
      type: 'image',
      source: { kind: 'url', url: 'https://x.test/y.png' },
      detail: 'auto',
      path: 'messages[0].content[3]',
    },
    { type: 'text', text: 'c' },
  ]);
  const inside = messagesOf([
    user,
    { role: 'assistant', content: [use('a')] },
    { role: 'user', content: [result('a', [{ type: 'text', text: 'x' }, image])] },
  ]);
  t.match(inside[2]?.content, [
    { type: 'text', text: 'x' },
    { type: 'image', path: 'messages[2].content[0].content[1]' },
  ]);

  const document = {
    type: 'document',
    title: 'T',
    context: 'C',
    source: { type: 'text', media_type: 'text/plain', data: 'D' },
  };
  const search = {
    type: 'search_result',
    title: 'S',
    source: 'https://s.test',
    content: [
      { type: 'text', text: 'p' },
      { type: 'text', text: 'q' },
    ],
    citations: { enabled: true },
  };
  t.same(
    bare([
      {
        role: 'user',
        content: [
          document,
          search,
          { type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'e' }] } },
          { type: 'document', source: { type: 'content', content: 'f' } },
        ],
      },
    ]),
    [{ role: 'user', content: 'T\n\nC\n\nD\n\nS\n\nhttps://s.test\n\np\n\nq\n\ne\n\nf' }],
  );
  t.match(
    bare([user, { role: 'assistant', content: [use('a')] }, { role: 'user', content: [result('a', [search])] }])[2],
    { content: /^S\n\nhttps/ },
  );
  for (const type of ['base64', 'url', 'file'])
    t.same(
      refusal({
        messages: [{ role: 'user', content: [{ type: 'document', source: { type, data: 'eA==', file_id: 'f' } }] }],
      }),
      ['unsupported_content', 'messages[0].content[0].source'],
      type,
    );
  t.same(
    refusal({ messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'file', file_id: 'f' } }] }] }),
    ['unsupported_content', 'messages[0].content[0].source'],
  );
});

t.test('reasoning is kept only in the current tool loop', async (t) => {
  const loop = (turn: object[], after: object[]) =>
    messagesOf([user, { role: 'assistant', content: turn }, { role: 'user', content: after }]);
  const reasoning = (messages: ReturnType<typeof messagesOf>) =>
    messages
      .map((message) => ('reasoning' in message ? message.reasoning : undefined))
      .find((text) => text !== undefined);
  t.equal(reasoning(loop([thought('hm'), use('a')], [result('a')])), 'hm');
  t.equal(
    reasoning(
      loop(
        [{ type: 'thinking', thinking: '', signature: sealer.sealThinking('hidden', here) }, use('a')],
        [result('a')],
      ),
    ),
    'hidden',
  );
  t.equal(
    reasoning(loop([{ type: 'redacted_thinking', data: sealer.sealThinking('red', here) }, use('a')], [result('a')])),
    'red',
  );
  t.equal(
    reasoning(loop([thought('hm'), use('a')], [result('a'), { type: 'text', text: 'Now this' }])),
    undefined,
    'a new user message ends the tool loop',
  );
  t.equal(
    reasoning(loop([thought('hm'), { type: 'text', text: 'x' }], [{ type: 'text', text: 'y' }])),
    undefined,
    'reasoning outside a tool loop is dropped',
  );
  t.equal(
    reasoning(loop([thought('hm', 'other'), use('a')], [result('a')])),
    undefined,
    'reasoning of another local model is dropped',
  );
  t.equal(
    reasoning(
      messagesOf([
        user,
        { role: 'assistant', content: [thought('hm'), use('a')] },
        { role: 'user', content: [result('a')] },
        { role: 'system', content: 's' },
      ]),
    ),
    'hm',
    'a system message does not end the loop',
  );
  t.equal(
    reasoning(
      messagesOf([
        user,
        { role: 'assistant', content: [thought('one'), use('a')] },
        { role: 'user', content: [result('a')] },
        { role: 'assistant', content: [thought('two'), use('b')] },
        { role: 'user', content: [result('b')] },
      ]),
    ),
    'one',
  );
});

t.test('reasoning with an invalid signature is refused or dropped, depending on the settings', async (t) => {
  const good = thought('hm');
  const sealed = sealer.sealThinking('hm', here);
  const bad: object[] = [
    { ...good, thinking: 'hn' },
    { ...good, signature: good.signature.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')) },
    { ...good, signature: '' },
    { ...good, signature: null },
    { type: 'thinking', thinking: 'hm' },
    { ...good, signature: sealer.signThinking('hm', { ...here, organizationId: 'org_b' }) },
    { type: 'thinking', thinking: 'hm', signature: sealed },
    { type: 'thinking', thinking: 'hm', signature: 'ErUBCkYIBBgCIkDl' },
    { type: 'redacted_thinking', data: '' },
    { type: 'redacted_thinking' },
    { type: 'redacted_thinking', data: sealer.signThinking('', here) },
    { type: 'redacted_thinking', data: sealed.slice(1) },
  ];
  for (const block of bad) {
    const messages = [
      user,
      { role: 'assistant', content: [block, use('a')] },
      { role: 'user', content: [result('a')] },
    ];
    t.same(refusal({ messages }), ['invalid_thinking_signature', 'messages[1].content[0]']);
    t.equal(
      (parse({ messages }, { foreignThinking: 'drop' }).request.messages[1] as { reasoning?: string }).reasoning,
      undefined,
      'with the `drop` setting, the reasoning is dropped',
    );
    t.same(
      refusal({ messages: [user, { role: 'assistant', content: [block, { type: 'text', text: 'x' }] }, user] }),
      ['invalid_thinking_signature', 'messages[1].content[0]'],
      'an invalid signature is refused at any position',
    );
  }
});

t.test('tools and tool_choice are parsed', async (t) => {
  const choice = (tool_choice: object) => parse({ tools: [tool], tool_choice }).request;
  t.same(parse({ tools: [tool] }).request.toolChoice, { mode: 'auto', allowed: null });
  t.match(choice({ type: 'tool', name: 'get_weather', disable_parallel_tool_use: true }), {
    toolChoice: { mode: 'required', allowed: ['get_weather'] },
    parallelToolCalls: false,
  });
  t.match(choice({ type: 'auto', disable_parallel_tool_use: true }), {
    toolChoice: { mode: 'auto' },
    parallelToolCalls: false,
  });
  t.match(choice({ type: 'none' }), { toolChoice: { mode: 'none' }, parallelToolCalls: true });
  t.same(parse({ tools: [{ ...tool, type: null }] }).request.tools.length, 1);
  for (const type of ['web_search_20260318', 'code_execution_20260521', 'mcp_toolset', 'bash_20990101', 'x']) {
    const { request, ignoredTools } = parse({ tools: [tool, { type, name: 'x' }, { type, name: 'y' }] });
    t.same([request.tools.map(({ name }) => name), ignoredTools], [['get_weather'], [type]], `${type} is left out`);
  }
  const vendors = parse({
    tools: [
      { type: 'bash_20250124', name: 'bash' },
      { type: 'text_editor_20250728', name: 'str_replace_based_edit_tool', max_characters: 10 },
      { type: 'text_editor_20250124', name: 'str_replace_editor' },
      { type: 'memory_20250818', name: 'memory' },
      { type: 'computer_20251124', name: 'computer', display_width_px: 800, display_height_px: 600, enable_zoom: true },
    ],
  });
  t.same(vendors.ignoredTools, []);
  t.same(parse({ mcp_servers: [{}] }).ignoredTools, ['mcp_servers']);
  const properties = vendors.request.tools.map(({ parameters }) => Object.keys(parameters!['properties'] as object));
  t.same(properties[0], ['command', 'restart']);
  t.ok(properties[1]!.includes('insert_text') && !properties[2]!.includes('insert_text'));
  t.ok(properties[3]!.includes('new_path'));
  t.ok(properties[4]!.includes('region'));
  t.match(vendors.request.tools[4]!.description, '800 by 600');
  t.match(JSON.stringify(vendors.request.tools[2]!.parameters), 'undo_edit');
  t.same(refusal({ tools: [{ type: 5, name: 'x', input_schema: {} }] }), ['invalid_type', 'tools[0].type']);
  t.same(refusal({ tools: [{ input_schema: { type: 'object' } }] }), ['missing_required_parameter', 'tools[0].name']);
  t.same(refusal({ tools: [{ name: 'x' }] }), ['missing_required_parameter', 'tools[0].input_schema']);
  t.same(refusal({ tools: [{ name: 'x', input_schema: [] }] }), ['invalid_type', 'tools[0].input_schema']);
  t.same(refusal({ tools: [{ name: 'x', input_schema: { type: 'string' } }] }), [
    'invalid_json_schema',
    'tools[0].input_schema.type',
  ]);
  t.same(refusal({ tools: [{ ...tool, name: 'a b' }] }), ['invalid_tool_name', 'tools[0].name']);
  t.same(refusal({ tools: [tool, tool] }), ['duplicate_tool_name', 'tools[1].name']);
  t.same(refusal({ tools: [tool], tool_choice: { type: 'tool', name: 'nope' } }), ['tool_not_found', 'tool_choice']);
  t.same(refusal({ tool_choice: { type: 'any' } }), ['conflicting_parameters', 'tool_choice']);
  t.same(refusal({ tool_choice: { type: 'some' } }), ['unknown_variant', 'tool_choice.type']);
});

t.test('the older name of the format parameter is accepted', async (t) => {
  const format = (minimum: number) => ({
    type: 'json_schema',
    schema: { type: 'object', properties: { a: { type: 'integer', minimum } } },
  });
  t.match(parse({ output_format: format(1) }).request.format, { type: 'json_schema', path: 'output_format.schema' });
  t.equal(parse({ output_format: format(1), output_config: { format: format(1) } }).request.format.type, 'json_schema');
  t.same(refusal({ output_format: format(1), output_config: { format: format(2) } }), [
    'conflicting_parameters',
    'output_config.format',
  ]);
  t.same(refusal({ output_config: { format: { type: 'regex' } } }), ['unknown_variant', 'output_config.format.type']);
  t.same(refusal({ output_config: { effort: 'minimal' } }), ['invalid_value', 'output_config.effort']);
});

t.test('a refusal names the position in the request', async (t) => {
  const block = (content: unknown, role = 'user') => ({ messages: [user, { role, content: [content] }] });
  const cases: [object, string, string][] = [
    [{ model: 5 }, 'invalid_type', 'model'],
    [{ model: null }, 'missing_required_parameter', 'model'],
    [{ max_tokens: undefined }, 'missing_required_parameter', 'max_tokens'],
    [{ max_tokens: -1 }, 'value_out_of_range', 'max_tokens'],
    [{ max_tokens: 1.5 }, 'invalid_type', 'max_tokens'],
    [{ max_tokens: '5' }, 'invalid_type', 'max_tokens'],
    [{ messages: 'Hi' }, 'invalid_type', 'messages'],
    [{ messages: ['Hi'] }, 'invalid_type', 'messages[0]'],
    [{ messages: [{ role: 'tool', content: 'x' }] }, 'unknown_variant', 'messages[0].role'],
    [{ messages: [{ content: 'x' }] }, 'missing_required_parameter', 'messages[0].role'],
    [{ messages: [{ role: 'user' }] }, 'missing_required_parameter', 'messages[0].content'],
    [{ messages: [{ role: 'user', content: 5 }] }, 'invalid_type', 'messages[0].content'],
    [block({ type: 'video' }), 'unknown_variant', 'messages[1].content[0].type'],
    [block({}), 'missing_required_parameter', 'messages[1].content[0].type'],
    [block({ type: 'text' }), 'missing_required_parameter', 'messages[1].content[0].text'],
    [block({ type: 'text', text: 1 }), 'invalid_type', 'messages[1].content[0].text'],
    [block({ type: 'image', source: { type: 'svg' } }), 'unknown_variant', 'messages[1].content[0].source.type'],
    [block({ type: 'tool_use', id: 'a', name: 'b', input: {} }), 'unknown_variant', 'messages[1].content[0].type'],
    [
      block({ type: 'tool_use', id: 'a', name: 'b', input: '{}' }, 'assistant'),
      'invalid_type',
      'messages[1].content[0].input',
    ],
    [
      block({ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'thinking' }] }),
      'unknown_variant',
      'messages[1].content[0].content[0].type',
    ],
    [block({ type: 'fallback' }, 'assistant'), 'unsupported_content', 'messages[1].content[0]'],
    [block({ type: 'container_upload' }), 'unsupported_content', 'messages[1].content[0]'],
    [block({ type: 'compaction' }, 'system'), 'unsupported_content', 'messages[1].content[0]'],
    [{ system: 5 }, 'invalid_type', 'system'],
    [{ system: [{ type: 'image' }] }, 'unknown_variant', 'system[0].type'],
    [{ temperature: 2.1 }, 'value_out_of_range', 'temperature'],
    [{ top_k: -1 }, 'value_out_of_range', 'top_k'],
    [{ stop_sequences: [''] }, 'invalid_value', 'stop_sequences[0]'],
    [{ stop_sequences: Array.from({ length: 17 }, () => 'x') }, 'array_too_long', 'stop_sequences'],
    [{ metadata: { user_id: 'x'.repeat(513) } }, 'string_too_long', 'metadata.user_id'],
    [{ service_tier: 'best' }, 'invalid_value', 'service_tier'],
    [{ container: 'c' }, 'unsupported_feature', 'container'],
    [{ thread: {} }, 'unsupported_feature', 'thread'],
    [{ temperature: 5, messages: [{ role: 'x' }] }, 'unknown_variant', 'messages[0].role'],
  ];
  for (const [change, code, param] of cases) t.same(refusal(change), [code, param], `${code} ${param}`);
  for (const body of [[], null, 'x', 5])
    t.throws(() => parseMessages(body, policy, 'generate'), { code: 'invalid_body' }, JSON.stringify(body));
});

t.test('count_tokens ignores streaming and accepts max_tokens', async (t) => {
  const count = (change: object) =>
    parseMessages({ model: 'm', messages: [user], ...change }, policy, 'count').content();
  t.equal(count({}).request.maxTokens, null);
  t.equal(count({ max_tokens: 9, stream: 5 }).stream, false);
  t.equal(count({ max_tokens: 9 }).request.maxTokens, 9);
  t.same(refusal({ max_tokens: 'many' }, {}, 'count'), ['invalid_type', 'max_tokens']);
  t.equal(count({ thinking: { type: 'enabled', budget_tokens: 9_999 } }).request.reasoningBudget, 9_999);
  t.same(refusal({ temperature: 5 }, {}, 'count'), ['value_out_of_range', 'temperature']);
  t.same(refusal({ thinking: { type: 'enabled', budget_tokens: 5 } }, {}, 'count'), [
    'value_out_of_range',
    'thinking.budget_tokens',
  ]);
});

t.test('messages record their position in the request', async (t) => {
  const paths = messagesOf(
    [
      user,
      { role: 'assistant', content: [use('a')] },
      { role: 'user', content: [result('a'), { type: 'text', text: 'x' }] },
    ],
    { system: 's' },
  ).map(({ path }) => path);
  t.same(paths, ['system', 'messages[0]', 'messages[1]', 'messages[2].content[0]', 'messages[2]']);
});

t.test('validation stops at the first fault in a list', async (t) => {
  for (const atLeastOne of [false, true]) {
    const entries = list(z.object({ a: z.string() }), { atLeastOne });
    const schema = z.object({ entries: z.union([z.string(), entries]) });
    for (const before of ['x', [{ a: 'b' }], [], 5, null, undefined, [1, 2]]) {
      schema.safeParse({ entries: before });
      schema.safeParse({});
      t.same(
        entries.safeParse([{ a: 'b', c: 1 }, 1, 2, 3]).error?.issues.map(({ path }) => path),
        [[1]],
      );
      t.same(entries.safeParse([{ a: 'b', c: 1 }]).data, [{ a: 'b' }]);
      t.match(entries.safeParse(before === 5 ? null : 5).error?.issues, [
        { code: 'invalid_type', expected: 'array', path: [] },
      ]);
    }
    t.equal(entries.safeParse([]).success, !atLeastOne);
  }
});

t.test('the thinking blocks of all messages are counted together', async (t) => {
  const thoughts = Array.from({ length: MAX_THINKING_BLOCKS / 2 }, () => thought('hm'));
  const messages = (last: object[]) => [
    user,
    { role: 'assistant', content: thoughts },
    user,
    { role: 'assistant', content: last },
    user,
  ];
  t.same(refusal({ messages: messages(thoughts) }), ['accepted', null]);
  t.same(refusal({ messages: messages([...thoughts, thoughts[0]!]) }), [
    'array_too_long',
    `messages[3].content[${thoughts.length}]`,
  ]);
});

t.test('a large body with many or invalid items is refused quickly', async (t) => {
  const many = <T>(count: number, item: T): T[] => Array.from({ length: count }, () => item);
  const bodies: [string, () => object, string][] = [
    [
      'wrong blocks',
      () => ({ messages: [{ role: 'user', content: many(199_000, { type: 'nope' }) }] }),
      'unknown_variant',
    ],
    [
      'blocks without text',
      () => ({ messages: [{ role: 'user', content: many(199_000, { type: 'text' }) }] }),
      'missing_required_parameter',
    ],
    [
      'wrong results',
      () => ({
        messages: many(1_000, {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: 'a', content: many(190, 5) }],
        }),
      }),
      'invalid_type',
    ],
    ['wrong messages', () => ({ messages: many(99_000, {}) }), 'missing_required_parameter'],
    ['too many messages', () => ({ messages: many(1_000_000, user) }), 'array_too_long'],
    [
      'too many blocks',
      () => ({ messages: [{ role: 'user', content: many(1_000_000, { type: 'text', text: 'x' }) }] }),
      'array_too_long',
    ],
    [
      'too many inner blocks',
      () => ({
        messages: many(1_000, {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: 'a', content: many(300, { type: 'text', text: 'x' }) }],
        }),
      }),
      'array_too_long',
    ],
    ['too many system blocks', () => ({ system: many(1_000_000, { type: 'text', text: 'x' }) }), 'array_too_long'],
    ['too many tools', () => ({ tools: many(500_000, tool) }), 'array_too_long'],
    [
      'too many biases',
      () => ({ logit_bias: Object.fromEntries(many(200_000, 0).map((_, at) => [at, 1])) }),
      'too_many_entries',
    ],
    [
      'too many thoughts',
      () => ({ messages: [user, { role: 'assistant', content: many(150_000, thought('hm')) }, user] }),
      'array_too_long',
    ],
  ];
  for (const [name, make, code] of bodies) {
    const change = make();
    const spent = cpuTime();
    const [found] = refusal(change);
    const ms = spent();
    t.equal(found, code, name);
    t.ok(ms < 1_500, `${name}: ${ms.toFixed()} ms`);
  }
});

t.test('numbers in the input of a past call keep all their digits', async (t) => {
  const body = jsonObject(
    '{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"id":2512292042121000001,"deep":[{"n":-9223372036854775808}]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}',
  );
  const [, call] = parseMessages(body, policy, 'generate').content().request.messages;
  t.match(call, { toolCalls: [{ arguments: '{"id":2512292042121000001,"deep":[{"n":-9223372036854775808}]}' }] });
});

t.test('calls and results of hosted tools are shown to the model as text', async (t) => {
  const results = [
    {
      type: 'web_search_result',
      title: 'Tides',
      url: 'https://example.com/tides',
      encrypted_content: 'x',
      page_age: '1',
    },
  ];
  const { request } = parse({
    messages: [
      { role: 'user', content: 'When is high tide?' },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'I will look.' },
          { type: 'server_tool_use', id: 's1', name: 'web_search', input: { query: 'high tide' } },
          { type: 'web_search_tool_result', tool_use_id: 's1', content: results },
          { type: 'text', text: 'At noon.' },
        ],
      },
      { role: 'user', content: 'Thanks.' },
    ],
  });
  t.equal(
    request.messages[1]!.content,
    'I will look.\n[server_tool_use]\nweb_search\n{"query":"high tide"}\n\n[web_search_tool_result]\nTides\nhttps://example.com/tides\nAt noon.',
  );
});

t.test('deferred tools are shown once the conversation refers to them', async (t) => {
  const deferred = (name: string) => ({ name, defer_loading: true, input_schema: { type: 'object' } });
  const search = { name: 'find_tool', input_schema: { type: 'object' } };
  const found = [
    { role: 'user', content: 'Weather?' },
    { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'find_tool', input: {} }] },
    {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'tool_reference', tool_name: 'weather' }] }],
    },
  ];
  const tools = [search, deferred('weather'), deferred('mail')];
  const shown = (body: object): string[] => parse(body).request.tools.map(({ name }) => name);
  t.same(shown({ tools }), ['find_tool']);
  t.same(shown({ tools, messages: found }), ['find_tool', 'weather']);
  t.equal(parse({ tools, messages: found }).request.messages.at(-1)!.content, 'The tool weather can now be called.');
  t.same(shown({ tools, tool_choice: { type: 'tool', name: 'mail' } }), ['find_tool', 'mail']);
  t.same(
    shown({ tools: [...tools, { type: 'tool_search_tool_bm25_20251119', name: 'tool_search_tool_bm25' }] }),
    ['find_tool', 'weather', 'mail'],
    "without Anthropic's search, all tools are shown",
  );
});
