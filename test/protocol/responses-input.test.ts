import t from 'tap';
import { ApiError } from '../../src/shared/errors.js';
import type { ImagePart, Message } from '../../src/generation/types.js';
import type { ServedModel } from '../../src/generation/served-models.js';
import { findChain, modelOf } from '../../src/protocol/responses/input-chain.js';
import { withImages } from '../../src/protocol/responses/input-images.js';
import { parseCreate, type CreateGeneration } from '../../src/protocol/responses/parse.js';
import { KeyRing } from '../../src/accounts/sealing/key-ring.js';
import { KeySealer } from '../../src/accounts/sealing/key-sealer.js';
import type { ChainedResponse, ResponseStatus, StoredItem } from '../../src/storage/response-store.js';

const sealer = new KeySealer(new KeyRing([Buffer.alloc(32, 1)]), ['m', 'other']);
const model: ServedModel = {
  name: 'm',
  recordedAs: 'm',
  asked: 'm',
  lifecycle: { state: 'active', deprecatedAt: null, retiresAt: null, successor: null },
  sampling: { temperature: 1, top_p: 1, top_k: 0, min_p: 0, repetition_penalty: 1 },
  ensureLoaded: () => Promise.resolve(),
  ready: () => {
    throw new Error('not needed');
  },
};

interface Past {
  chain?: readonly ChainedResponse[];
  items?: readonly StoredItem[];
  rejects?: boolean;
}

function parse(input: unknown, { chain = [], items = [], rejects = false }: Past = {}): CreateGeneration {
  const parsed = parseCreate(
    { model: 'm', input, previous_response_id: chain.at(-1)?.id },
    { organizationId: 'org_a', sealer, foreignThinking: rejects ? 'reject' : 'drop' },
  );
  return parsed.content({
    model,
    chain,
    items: new Referenced(
      items.map((item) => [item.id, item]),
      parsed.references,
    ),
  });
}

/** The items fetched for a request. Using any other stored item throws. */
class Referenced extends Map<string, StoredItem> {
  constructor(
    items: [string, StoredItem][],
    readonly references: readonly string[],
  ) {
    super(items);
  }

  override get(id: string): StoredItem | undefined {
    if (super.has(id) && !this.references.includes(id)) throw new Error(`${id} was not fetched`);
    return super.get(id);
  }
}

function outcome(input: unknown, past?: Past): string {
  try {
    parse(input, past);
    return 'ok';
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return `${error.status} ${error.code} ${error.param}`;
  }
}

/** Returns the messages without their positions, which matter only for errors, and without the blocks of reasoning. */
const messages = (input: unknown, past?: Past) =>
  parse(input, past).request.messages.map(({ path: _path, ...message }) => {
    if (message.role !== 'assistant') return message as Message;
    const { thoughts: _thoughts, lacksReasoning: _lacks, ...rest } = message;
    return rest as Message;
  });

const call = (id: string, more: object = {}) => ({
  type: 'function_call',
  call_id: id,
  name: 'f',
  arguments: '{"a":1}',
  ...more,
});
const result = (id: string, output: unknown = 'done') => ({ type: 'function_call_output', call_id: id, output });
const stored = (item: object): StoredItem => ({
  id: (item as { id: string }).id,
  item: item as Record<string, unknown>,
});
const record = (
  id: string,
  input: object[],
  output: object[],
  status: ResponseStatus = 'completed',
): ChainedResponse => ({
  id,
  organizationId: 'org_a',
  model: 'm',
  createdAt: 1,
  status,
  background: false,
  previousId: null,
  input: input.map(stored),
  output: output.map(stored),
});
const said = (text: string) => ({
  id: `msg_${text}`,
  type: 'message',
  status: 'completed',
  role: 'user',
  content: [{ type: 'input_text', text }],
});
const answered = (text: string) => ({
  id: `msg_a_${text}`,
  type: 'message',
  status: 'completed',
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [], logprobs: [] }],
});

t.test('every notation of a message is accepted, and its id, status and parts are kept', async (t) => {
  const { input, request } = parse([
    { role: 'user', content: 'one' },
    {
      type: 'message',
      id: 'msg_mine',
      status: 'incomplete',
      role: 'assistant',
      phase: 'commentary',
      content: [
        { type: 'output_text', text: 'two', annotations: [{ type: 'url_citation' }], logprobs: [] },
        { type: 'refusal', refusal: '!' },
      ],
    },
    {
      role: 'developer',
      content: [
        { type: 'input_text', text: 'th' },
        { type: 'input_text', text: 'ree' },
      ],
    },
    { role: 'assistant', id: '', status: 'odd', content: [{ type: 'input_text', text: 'four' }] },
    { role: 'user', content: '' },
  ]);
  t.same(
    request.messages.map(({ role, content }) => [role, content]),
    [
      ['user', 'one'],
      ['assistant', 'two!'],
      ['system', 'three'],
      ['assistant', 'four'],
      ['user', ''],
    ],
  );
  t.match(
    input.map(({ item }) => item),
    [
      {
        id: /^msg_[0-9a-f]{48}$/,
        type: 'message',
        status: 'completed',
        role: 'user',
        content: [{ type: 'input_text', text: 'one' }],
      },
      {
        id: 'msg_mine',
        status: 'incomplete',
        phase: 'commentary',
        content: [
          { type: 'output_text', text: 'two', annotations: [], logprobs: [] },
          { type: 'refusal', refusal: '!' },
        ],
      },
      { role: 'developer' },
      { id: /^msg_[0-9a-f]{48}$/, status: 'completed', content: [{ type: 'output_text' }] },
      {},
    ],
  );
  t.ok(input.every(({ id, item }) => item['id'] === id));
  t.match(parse('hello').input, [
    { item: { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'hello' }] } },
  ]);
});

t.test('each invalid input is refused with its code and parameter', async (t) => {
  const user = (part: object) => [{ role: 'user', content: [part] }];
  const cases: [input: unknown, expected: string][] = [
    [[{}], '400 missing_required_parameter input[0].type'],
    [[5], '400 invalid_type input[0]'],
    [[{ type: 'wish' }], '400 unknown_variant input[0].type'],
    [[{ role: 'robot', content: '' }], '400 unknown_variant input[0].role'],
    [[{ role: 'user' }], '400 missing_required_parameter input[0].content'],
    [[{ role: 'user', content: [] }], '400 missing_required_parameter input[0].content'],
    [[{ role: 'assistant', content: [] }], 'ok'],
    [[{ role: 'assistant', content: 'x', phase: 'musing' }], '422 invalid_value input[0].phase'],
    [user({ type: 'text', text: 'x' }), '400 unknown_variant input[0].content[0].type'],
    [user({ type: 'input_text' }), '400 missing_required_parameter input[0].content[0].text'],
    [user({ type: 'output_text', text: 'x' }), '422 unsupported_content input[0].content[0]'],
    [user({ type: 'input_file', file_id: 'f' }), '422 unsupported_content input[0].content[0]'],
    [user({ type: 'input_audio' }), '422 unsupported_content input[0].content[0]'],
    [user({ type: 'input_video' }), '422 unsupported_content input[0].content[0]'],
    [user({ type: 'input_image', file_id: 'file_1' }), '422 unsupported_content input[0].content[0]'],
    [user({ type: 'input_image' }), '400 missing_required_parameter input[0].content[0].image_url'],
    [user({ type: 'input_image', image_url: 'x', detail: 'vivid' }), '422 invalid_value input[0].content[0].detail'],
    [
      [{ role: 'system', content: [{ type: 'input_image', image_url: 'x' }] }],
      '422 unsupported_content input[0].content[0]',
    ],
    [[call('c1')], '422 missing_tool_output input[0]'],
    [[result('c1')], '422 tool_call_not_found input[0].call_id'],
    [[call('c1'), result('c1'), result('c1')], '422 invalid_value input[2].call_id'],
    [[call('c1'), call('c1'), result('c1')], '422 invalid_value input[1].call_id'],
    [[call('c1'), result('c2')], '422 tool_call_not_found input[1].call_id'],
    [[call('c1'), result('c1'), call('c1'), result('c1')], 'ok'],
    [[call('')], '422 invalid_value input[0].call_id'],
    [[call('c1', { arguments: { a: 1 } })], '400 invalid_type input[0].arguments'],
    [[call('c1', { arguments: '{broken' }), result('c1')], 'ok'],
    [[call('c1'), result('c1', [{ type: 'input_text', text: 'x' }])], 'ok'],
    [[call('c1'), result('c1', [{ type: 'output_text', text: 'x' }])], '422 unsupported_content input[1].output[0]'],
    [[call('c1'), result('c1', 5)], '400 invalid_type input[1].output'],
    [[{ type: 'reasoning' }], '400 missing_required_parameter input[0].summary'],
    [[{ type: 'reasoning', summary: [], encrypted_content: 'enc1.AAAA' }], '400 missing_required_parameter input'],
    [[{ type: 'compaction', encrypted_content: 'enc1.AAAA' }], '400 invalid_encrypted_content input[0]'],
    [[{ id: 'msg_unknown' }], '404 item_not_found input[0]'],
    [[{ type: 'item_reference', id: 'msg_unknown' }], '404 item_not_found input[0]'],
    [
      ['configuration_update', 'program', 'program_output'].map((type) => ({ type })),
      '422 unsupported_content input[0]',
    ],
    [[{ role: 'user', content: 'x' }, { type: 'compaction_trigger' }], 'ok'],
    [[{ type: 'compaction_trigger' }, { role: 'user', content: 'x' }], '422 invalid_value input[0]'],
    [[{ type: 'compaction_trigger' }], '400 missing_required_parameter input'],
    [
      [
        { type: 'web_search_call', id: 'ws' },
        { type: 'mcp_call' },
        { type: 'local_shell_call_output' },
        { role: 'user', content: 'x' },
      ],
      'ok',
    ],
  ];
  for (const [input, expected] of cases) t.equal(outcome(input), expected, JSON.stringify(input).slice(0, 120));
});

t.test('the items of one assistant message are merged', async (t) => {
  t.same(
    messages([
      { role: 'user', content: 'go' },
      {
        type: 'reasoning',
        summary: [{ type: 'summary_text', text: 'short' }],
        content: [{ type: 'reasoning_text', text: 'long' }],
      },
      { role: 'assistant', content: 'on it' },
      call('c1'),
      call('c2', { namespace: 'crm' }),
      result('c2', 'two'),
      result('c1', [
        { type: 'input_text', text: 'o' },
        { type: 'input_text', text: 'ne' },
      ]),
      { role: 'assistant', content: 'there' },
    ]),
    [
      { role: 'user', content: 'go' },
      {
        role: 'assistant',
        content: 'on it',
        reasoning: 'long',
        toolCalls: [
          { id: 'c1', name: 'f', arguments: '{"a":1}' },
          { id: 'c2', name: 'crm__f', arguments: '{"a":1}' },
        ],
      },
      { role: 'tool', toolCallId: 'c2', content: 'two' },
      { role: 'tool', toolCallId: 'c1', content: 'one' },
      { role: 'assistant', content: 'there' },
    ],
  );
  t.same(
    messages([
      call('c1'),
      result('c1'),
      { type: 'reasoning', summary: [{ type: 'summary_text', text: 'then' }] },
      call('c2'),
      result('c2'),
    ]).map(({ role, ...rest }) => [role, 'reasoning' in rest ? rest.reasoning : null]),
    [
      ['assistant', null],
      ['tool', null],
      ['assistant', 'then'],
      ['tool', null],
    ],
  );
});

t.test('messages between calls and their results are moved after the results', async (t) => {
  t.same(
    messages([
      call('c1'),
      { role: 'user', content: 'hurry' },
      result('c1'),
      call('c2'),
      { role: 'assistant', content: 'hm' },
      call('c3'),
      result('c3'),
      result('c2'),
    ]).map(({ role, content }) => [role, content]),
    [
      ['assistant', null],
      ['tool', 'done'],
      ['user', 'hurry'],
      ['assistant', null],
      ['tool', 'done'],
      ['tool', 'done'],
      ['assistant', 'hm'],
    ],
  );
});

t.test('calls of custom tools become calls with one argument', async (t) => {
  const input = [
    { type: 'custom_tool_call', call_id: 'c1', name: 'shell', input: 'ls "x"' },
    { type: 'custom_tool_call_output', call_id: 'c1', output: 'y' },
  ];
  t.same(messages(input), [
    { role: 'assistant', content: null, toolCalls: [{ id: 'c1', name: 'shell', arguments: '{"input":"ls \\"x\\""}' }] },
    { role: 'tool', toolCallId: 'c1', content: 'y' },
  ]);
  t.match(
    parse(input).input.map(({ item }) => item['type']),
    ['custom_tool_call', 'custom_tool_call_output'],
  );
});

t.test('tools found among the items are offered together with the other tools', async (t) => {
  const tool = (name: string) => ({ type: 'function', name });
  const { request, input, ignoredTools } = parse([
    { role: 'user', content: 'x' },
    {
      type: 'additional_tools',
      tools: [tool('f'), { type: 'namespace', name: 'n', tools: [tool('g')] }, { type: 'mcp' }],
    },
  ]);
  t.same(
    request.tools.map(({ name }) => name),
    ['f', 'n__g'],
  );
  t.equal(input.length, 1);
  t.same(ignoredTools, ['mcp']);
  t.equal(
    outcome([
      { type: 'additional_tools', tools: [tool('a b')] },
      { role: 'user', content: 'x' },
    ]),
    '422 invalid_tool_name input[0].tools[0].name',
  );
});

t.test(
  'an encrypted item is decrypted for its organization, left out or refused for others, and used only with its model',
  async (t) => {
    const reasoning = (sealed: string) => [
      call('c0'),
      result('c0'),
      { type: 'reasoning', summary: [{ type: 'summary_text', text: 'short' }], encrypted_content: sealed },
      call('c1'),
      result('c1'),
    ];
    const read = (sealed: string) =>
      messages(reasoning(sealed)).flatMap((message) => ('reasoning' in message ? [message.reasoning] : []));
    const sealed = (organizationId: string, of: string) =>
      sealer.seal('reasoning', 'hidden', { organizationId, model: of });
    t.same(read(sealed('org_a', 'm')), ['hidden']);
    t.same(read(sealed('org_a', 'other')), [], "another model's item is dropped");
    const good = sealed('org_a', 'm');
    const altered = good.slice(0, -2) + (good.at(-2) === 'A' ? 'B' : 'A') + good.at(-1);
    const summary = sealer.seal('compaction', 'they agreed', { organizationId: 'org_a', model: 'other' });
    for (const foreign of [sealed('org_b', 'm'), altered, summary, 'gAAAAABo', '']) {
      t.same(read(foreign), [], `${foreign.slice(0, 9)} cannot be decrypted, so neither it nor its summary is used`);
      t.equal(outcome(reasoning(foreign), { rejects: true }), '400 invalid_encrypted_content input[2]');
    }
    t.same(
      messages([
        { type: 'compaction', encrypted_content: summary },
        { role: 'user', content: 'so?' },
      ]),
      [
        { role: 'system', content: 'Summary of the conversation so far: they agreed' },
        { role: 'user', content: 'so?' },
      ],
    );
    t.match(
      parse([
        { type: 'compaction', encrypted_content: summary },
        { role: 'user', content: 'so?' },
      ]).input[0],
      { id: /^cmp_/, item: { type: 'compaction', encrypted_content: summary } },
    );
  },
);

t.test('reasoning without its own text is looked up in storage', async (t) => {
  const items = [
    stored({ id: 'rs_1', type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'kept' }] }),
  ];
  const input = (id: string) => [
    { type: 'reasoning', id, summary: [{ type: 'summary_text', text: 'short' }] },
    call('c1'),
    result('c1'),
  ];
  t.match(messages(input('rs_1'), { items })[0], { reasoning: 'kept' });
  t.match(messages(input('rs_2'), { items })[0], { reasoning: 'short' });
});

t.test("a chain's items come first, and the request may contain results for its calls", async (t) => {
  const chain = [
    record(
      'resp_1',
      [said('one')],
      [
        { id: 'rs_1', type: 'reasoning', status: 'completed', summary: [{ type: 'summary_text', text: 'why' }] },
        answered('eins'),
      ],
    ),
    record('resp_2', [said('two')], [{ id: 'fc_1', status: 'completed', ...call('c1') }]),
  ];
  const created = parse([result('c1')], { chain });
  t.same(
    created.request.messages.map(({ role, content }) => [role, content]),
    [
      ['user', 'one'],
      ['assistant', 'eins'],
      ['user', 'two'],
      ['assistant', null],
      ['tool', 'done'],
    ],
  );
  t.same(
    created.input.map(({ item }) => item['type']),
    ['function_call_output'],
    "only the request's own items are stored",
  );
  t.match(created, { previousId: 'resp_2', base: 'resp_2', tail: [], echo: { previous_response_id: 'resp_2' } });
  t.equal(outcome('go on', { chain }), '422 missing_tool_output previous_response_id');
  t.equal(outcome([result('c9')], { chain }), '422 tool_call_not_found input[0].call_id');

  const cut = [
    record(
      'resp_3',
      [said('one')],
      [answered('eins'), { id: 'fc_2', ...call('c2'), status: 'incomplete', arguments: '{"a' }],
      'incomplete',
    ),
  ];
  t.same(
    messages('again', { chain: cut }).map(({ role }) => role),
    ['user', 'assistant', 'user'],
    'a truncated call needs no result',
  );
  t.equal(
    outcome([{ role: 'user', content: 'x' }, { id: 'msg_one' }], { chain, items: chain.flatMap(({ input }) => input) }),
    '422 missing_tool_output previous_response_id',
  );
  t.same(messages([{ id: 'msg_one' }], { items: chain.flatMap(({ input }) => input) }), [
    { role: 'user', content: 'one' },
  ]);
});

t.test('the unsaved end of a chain is distinguished from stored items', async (t) => {
  const chain = [
    record('resp_1', [said('one')], [answered('eins')]),
    record('resp_2', [said('two')], [answered('zwei')]),
  ];
  const content = (unsaved: number) =>
    parseCreate(
      { model: 'm', input: 'x', previous_response_id: 'resp_2' },
      { organizationId: 'org_a', sealer },
    ).content({ model, chain, unsaved });
  t.match(content(1), { previousId: 'resp_2', base: 'resp_1', tail: [{ id: 'resp_2' }] });
  t.match(content(2), { base: null, tail: [{ id: 'resp_1' }, { id: 'resp_2' }] });
});

t.test('a chain that is too long to read is refused', async (t) => {
  const long = 'x'.repeat(1024 * 1024);
  const read: number[] = [];
  const chain = Array.from(
    { length: 80 },
    (_, at): ChainedResponse => ({
      ...record(`resp_${at}`, [], [answered('ok')]),
      get input() {
        read.push(at);
        return [stored({ ...said(long), id: `msg_${at}` })];
      },
    }),
  );
  t.equal(outcome('x', { chain: chain.slice(0, 60) }), 'ok');
  read.length = 0;
  t.equal(outcome('x', { chain }), '422 response_not_usable previous_response_id');
  t.equal(read.length, 64, 'the rest of the chain is not read');
  const many = record(
    'resp_1',
    Array.from({ length: 300_000 }, (_, at) => ({ ...said(''), id: `msg_${at}` })),
    [],
  );
  t.equal(
    outcome('x', { chain: [many, many] }),
    '422 response_not_usable previous_response_id',
    'items without text count toward the limit as well',
  );
  const items = [stored({ ...said(long.repeat(30)), id: 'msg_x' })];
  const references = (count: number) => Array.from({ length: count }, () => ({ type: 'item_reference', id: 'msg_x' }));
  t.equal(outcome(references(2), { items }), 'ok');
  t.equal(
    outcome(references(3), { items }),
    '422 response_not_usable input[2]',
    'references count toward the limit too',
  );
});

t.test('the status and model of the continued response are checked', async (t) => {
  let holds = 0;
  const held = (status: ResponseStatus) => ({
    responses: [record('resp_1', [], [], status)],
    release: () => {
      holds--;
    },
  });
  const found = (status: ResponseStatus | null) =>
    findChain(
      {
        get: () => Promise.resolve(null),
        async chain() {
          if (status === null) return null;
          holds++;
          return held(status);
        },
      },
      'org_a',
      'resp_1',
    );
  for (const status of ['failed', 'cancelled', 'queued', 'in_progress'] as const)
    await t.rejects(found(status), { code: 'response_not_usable', param: 'previous_response_id' });
  await t.rejects(found(null), { code: 'previous_response_not_found', param: 'previous_response_id' });
  t.equal(holds, 0, 'a response that cannot be continued is not held');
  for (const status of ['completed', 'incomplete'] as const)
    t.match(await found(status), { chain: { length: 1 }, base: 'resp_1', tail: [] });
  t.equal(holds, 2);
  const { chain } = await found('completed');
  t.equal(modelOf(null, chain), 'm');
  t.equal(modelOf('n', chain), 'n');
});

t.test('images are listed with their positions, and the chain keeps their bytes', async (t) => {
  const url = 'data:image/png;base64,AAAA';
  const created = parse([
    {
      role: 'user',
      content: [
        { type: 'input_text', text: 'see' },
        { type: 'input_image', image_url: url },
        { type: 'input_image', image_url: 'https://x/y.png', detail: 'low' },
      ],
    },
    call('c1'),
    result('c1', [{ type: 'input_image', image_url: url }]),
  ]);
  const images = (from: readonly Message[]) =>
    from.flatMap(({ content }) =>
      Array.isArray(content) ? (content as ImagePart[]).filter(({ type }) => type === 'image') : [],
    );
  t.match(images(created.request.messages), [
    { path: 'input[0].content[1]', detail: 'auto', source: { kind: 'url', url } },
    { path: 'input[0].content[2]', detail: 'low', source: { kind: 'url', url: 'https://x/y.png' } },
    { path: 'input[2].output[0]', detail: 'auto' },
  ]);
  t.match(created.input[0]!.item['content'], [
    {},
    { type: 'input_image', image_url: url, detail: 'auto' },
    { detail: 'low' },
  ]);

  const loaded = created.request.messages.map((message) => ({
    ...message,
    content: Array.isArray(message.content)
      ? message.content.map((part: ImagePart) =>
          part.type === 'image'
            ? {
                ...part,
                source: {
                  kind: 'loaded',
                  image: { bytes: Buffer.from(part.path), format: 'png', width: 1, height: 1 },
                },
              }
            : part,
        )
      : message.content,
  })) as Message[];
  const kept = withImages(created.input, loaded);
  t.same(
    kept.map((item) => item.images?.map(String)),
    [['input[0].content[1]', 'input[0].content[2]'], undefined, ['input[2].output[0]']],
  );
  t.notOk(kept.some((item) => 'imagePaths' in item));

  const chain: ChainedResponse[] = [{ ...record('resp_1', [], [answered('ok')]), input: kept }];
  t.match(images(messages('and now?', { chain }))[1], {
    detail: 'low',
    source: { kind: 'bytes', bytes: Buffer.from('input[0].content[2]') },
  });
});

t.test('calls and results of hosted tools are shown to the model as text, and stored unchanged', async (t) => {
  const call = {
    type: 'web_search_call',
    id: 'ws_1',
    status: 'completed',
    action: { type: 'search', query: 'high tide', sources: [{ type: 'url', url: 'https://example.com' }] },
  };
  const image = { type: 'image_generation_call', id: 'ig_1', result: 'A'.repeat(2_000), status: 'completed' };
  const input = [
    { role: 'user', content: 'When is high tide?' },
    call,
    { role: 'assistant', content: 'At noon.' },
    { role: 'user', content: 'Draw it.' },
    { role: 'assistant', content: 'Here:' },
    image,
    { role: 'user', content: 'Thanks.' },
  ];
  t.match(messages(input), [
    { role: 'user', content: 'When is high tide?' },
    { role: 'assistant', content: '[web_search_call]\nhigh tide\n\nAt noon.' },
    { role: 'user', content: 'Draw it.' },
    { role: 'assistant', content: 'Here:\n\n[image_generation_call]' },
    { role: 'user', content: 'Thanks.' },
  ]);
  t.same(parse(input).input[1]!.item, call);
});
