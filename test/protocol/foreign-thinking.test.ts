// Tests reasoning that cannot be used: reasoning sealed by another service or with a removed key, or written by another
// model of this server. In every format, such reasoning is left out of the prompt and listed.
import t from 'tap';
import { KeyRing } from '../../src/accounts/sealing/key-ring.js';
import { KeySealer } from '../../src/accounts/sealing/key-sealer.js';
import type { GenerationRequest, Message } from '../../src/generation/types.js';
import type { ServedModel } from '../../src/generation/served-models.js';
import { parseChat } from '../../src/protocol/chat-completions/parse.js';
import { nameLeftOut, type ForeignThinking } from '../../src/protocol/foreign-thinking.js';
import { parseMessages } from '../../src/protocol/messages/parse.js';
import { parseCreate } from '../../src/protocol/responses/parse.js';
import type { ChainedResponse, StoredItem } from '../../src/storage/response-store.js';

const sealer = new KeySealer(new KeyRing([Buffer.alloc(32, 1)]), ['m', 'other']);
const removed = new KeySealer(new KeyRing([Buffer.alloc(32, 2)]), ['m', 'other']);
const here = { organizationId: 'org_a', model: 'm' };

const user = { role: 'user', content: 'What is 2+2?' };
const use = { type: 'tool_use', id: 'toolu_1', name: 'get', input: {} };
const result = { type: 'tool_result', tool_use_id: 'toolu_1', content: '4' };
const thought = (by: KeySealer, text: string, context: object = {}) => ({
  type: 'thinking',
  thinking: text,
  signature: by.signThinking(text, { ...here, ...context }),
});

interface Read {
  request: GenerationRequest;
  places: string[];
}
const read = (request: GenerationRequest): Read => ({
  request,
  places: (request.leftOut ?? []).map(({ path }) => path),
});

const messages = (list: object[], policy: { foreignThinking?: ForeignThinking; body?: object } = {}): Read =>
  read(
    parseMessages(
      { model: 'm', max_tokens: 2_000, messages: list, ...policy.body },
      { sealer, organizationId: 'org_a', foreignThinking: policy.foreignThinking ?? 'drop' },
      'generate',
    ).content().request,
  );

const model: ServedModel = {
  name: 'm',
  recordedAs: 'm',
  asked: 'alias',
  lifecycle: { state: 'active', deprecatedAt: null, retiresAt: null, successor: null },
  sampling: { temperature: 1, top_p: 1, top_k: 0, min_p: 0, repetition_penalty: 1 },
  ensureLoaded: () => Promise.resolve(),
  ready: () => {
    throw new Error('not needed');
  },
};
const responses = (
  input: object[],
  { chain = [], foreignThinking }: { chain?: readonly ChainedResponse[]; foreignThinking?: ForeignThinking } = {},
): Read =>
  read(
    parseCreate(
      { model: 'alias', input, previous_response_id: chain.at(-1)?.id },
      { sealer, organizationId: 'org_a', foreignThinking },
    ).content({ model, chain }).request,
  );
const reasoningIn = ({ request }: Read): (string | undefined)[] =>
  request.messages.flatMap((message) => (message.role === 'assistant' ? [message.reasoning] : []));
const bare = ({ request }: Read): object[] =>
  request.messages.map((message) => {
    const {
      path: _path,
      thoughts: _thoughts,
      lacksReasoning: _lacks,
      ...rest
    } = message as Extract<Message, { role: 'assistant' }>;
    return JSON.parse(JSON.stringify(rest)) as object;
  });

const FOREIGN = [
  { type: 'thinking', thinking: 'secret plan', signature: 'EqoBCkgIARABGAIiQ' },
  { type: 'thinking', thinking: 'secret plan', signature: '' },
  { type: 'thinking', thinking: 'secret plan' },
  { type: 'redacted_thinking', data: 'EmwKAhgB' },
  { type: 'redacted_thinking' },
  thought(sealer, 'secret plan', { organizationId: 'org_b' }),
  thought(removed, 'secret plan'),
];

t.test('messages: a foreign block is left out of the prompt and listed', async (t) => {
  for (const block of FOREIGN) {
    const loop = (content: object[]) => [user, { role: 'assistant', content }, { role: 'user', content: [result] }];
    const with_ = messages(loop([block, use]));
    t.same(with_.places, ['messages[1].content[0]']);
    t.same(bare(with_), bare(messages(loop([use]))));
    const talk = (content: object[]) => [user, { role: 'assistant', content }, user];
    t.same(messages(talk([block, { type: 'text', text: '4' }])).places, ['messages[1].content[0]']);
  }
});

t.test('messages: a turn of only foreign reasoning is skipped, and the user turns around it are joined', async (t) => {
  const read = messages([user, { role: 'assistant', content: [FOREIGN[0]!] }, { role: 'user', content: 'And 3+3?' }]);
  t.same(bare(read), [{ role: 'user', content: 'What is 2+2?\n\nAnd 3+3?' }]);
  t.same(read.places, ['messages[1].content[0]']);
  t.throws(() => messages([{ role: 'assistant', content: [FOREIGN[0]!] }]), { code: 'missing_required_parameter' });
});

t.test(
  "another model's reasoning is listed; this model's own is not, even if the prompt does not show it",
  async (t) => {
    const read = messages([
      user,
      { role: 'assistant', content: [thought(sealer, 'own'), { type: 'text', text: '4' }] },
      user,
      { role: 'assistant', content: [thought(sealer, 'of the other', { model: 'other' }), FOREIGN[0]!, use] },
      { role: 'user', content: [result] },
    ]);
    t.same(read.places, ['messages[3].content[0]', 'messages[3].content[1]']);
    t.same(
      read.request.leftOut?.map(({ reason }) => reason),
      ['other_model', 'foreign'],
    );
    t.same(reasoningIn(read), [undefined, undefined]);
  },
);

t.test('messages: `reject`, and an error for mismatches in the request, refuse a foreign block', async (t) => {
  const list = [user, { role: 'assistant', content: [FOREIGN[0]!, { type: 'text', text: '4' }] }, user];
  const refused = {
    code: 'invalid_thinking_signature',
    status: 400,
    param: 'messages[1].content[0]',
    message: /invalid signature in thinking block/,
  };
  t.throws(() => messages(list, { foreignThinking: 'reject' }), refused);
  const binding = (behavior: string) => ({
    body: { thinking: { type: 'adaptive', block_binding: { prefix_mismatch_behavior: behavior } } },
  });
  t.throws(() => messages(list, binding('error')), refused);
  t.same(messages(list, binding('drop_block')).places, ['messages[1].content[0]']);
  t.throws(() => messages(list, { ...binding('drop_block'), foreignThinking: 'reject' }), refused);
});

t.test('messages: a compaction block replaces the messages before it, even if another service signed it', async (t) => {
  const read = messages([
    { role: 'system', content: 'Be brief.' },
    user,
    { role: 'assistant', content: [{ type: 'text', text: 'old' }] },
    user,
    {
      role: 'assistant',
      content: [
        { type: 'compaction', content: 'They added numbers.', signature: 'Eq', encrypted_content: 'gAAAAA' },
        use,
      ],
    },
    { role: 'user', content: [result] },
  ]);
  t.same(bare(read), [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Summary of the conversation so far: They added numbers.' },
    { role: 'assistant', content: null, toolCalls: [{ id: 'toolu_1', name: 'get', arguments: '{}' }] },
    { role: 'tool', content: '4', toolCallId: 'toolu_1', failed: false },
  ]);
  t.same(bare(messages([{ role: 'assistant', content: [{ type: 'compaction', content: 'S' }] }, user])), [
    { role: 'user', content: 'Summary of the conversation so far: S\n\nWhat is 2+2?' },
  ]);
  t.same(
    bare(messages([user, { role: 'assistant', content: [{ type: 'compaction', content: null }] }, user])),
    [{ role: 'user', content: 'What is 2+2?\n\nWhat is 2+2?' }],
    'a failed compaction has no effect',
  );
});

const call = { type: 'function_call', call_id: 'c1', name: 'get', arguments: '{}' };
const output = { type: 'function_call_output', call_id: 'c1', output: '4' };
const reasoning = (encrypted_content: string | null, more: object = {}) => ({
  type: 'reasoning',
  id: 'rs_0a1b',
  summary: [{ type: 'summary_text', text: 'short' }],
  content: [{ type: 'reasoning_text', text: 'long' }],
  encrypted_content,
  ...more,
});

t.test('responses: a foreign item is left out completely and listed; an unsealed item is used', async (t) => {
  for (const sealed of ['gAAAAABo', removed.seal('reasoning', 'x', here), '']) {
    const read = responses([user, reasoning(sealed), call, output]);
    t.same(read.places, ['input[1]']);
    t.same(reasoningIn(read), [undefined]);
    t.throws(() => responses([user, reasoning(sealed), call, output], { foreignThinking: 'reject' }), {
      code: 'invalid_encrypted_content',
      message: 'input[1].encrypted_content could not be verified.',
    });
  }
  const unsealed = responses([user, reasoning(null), call, output]);
  t.same(reasoningIn(unsealed), ['long']);
  t.same(unsealed.places, []);
  const other = responses([user, reasoning(sealer.seal('reasoning', 'x', { ...here, model: 'other' })), call, output]);
  t.same(other.places, ['input[1]']);
  t.same(reasoningIn(other), [undefined]);
  for (const name of ['m', 'alias'])
    t.same(
      reasoningIn(
        responses([
          user,
          reasoning(
            new KeySealer(new KeyRing([Buffer.alloc(32, 1)]), []).seal('reasoning', 'x', { ...here, model: name }),
          ),
          call,
          output,
        ]),
      ),
      ['x'],
      'an alias is the same model',
    );
});

t.test('responses: in a stored chain, items that cannot be decrypted are left out and listed by ID', async (t) => {
  const stored = (item: object): StoredItem => ({
    id: (item as { id: string }).id,
    item: item as Record<string, unknown>,
  });
  const text = {
    id: 'msg_1',
    type: 'message',
    status: 'completed',
    role: 'assistant',
    content: [{ type: 'output_text', text: '4', annotations: [] }],
  };
  const first = {
    id: 'msg_0',
    type: 'message',
    status: 'completed',
    role: 'user',
    content: [{ type: 'input_text', text: 'Q' }],
  };
  const chain = (...items: object[]): ChainedResponse[] => [
    {
      id: 'resp_1',
      organizationId: 'org_a',
      model: 'm',
      createdAt: 1,
      status: 'completed',
      background: false,
      previousId: null,
      input: [stored(first)],
      output: [...items, text].map(stored),
    },
  ];
  const foreign = responses([user], { chain: chain(reasoning('gAAAAABo')) });
  t.same(foreign.places, ['previous_response_id:rs_0a1b']);
  t.same(reasoningIn(foreign), [undefined]);
  const old = responses([user], { chain: chain(reasoning(removed.seal('reasoning', 'x', here))) });
  t.same(old.places, ['previous_response_id:rs_0a1b'], 'the key of the item was removed');
  const own = responses([user], { chain: chain(reasoning(sealer.seal('reasoning', 'x', here))) });
  t.same(own.places, []);
  t.same(reasoningIn(own), ['x']);
  t.same(reasoningIn(responses([user], { chain: chain(reasoning(null, { encrypted_content: undefined })) })), ['long']);
});

t.test('responses: unknown reasoning by reference is left out; other unknown references are errors', async (t) => {
  const read = responses([user, { type: 'item_reference', id: 'rs_unknown' }, call, output]);
  t.same(read.places, ['input[1]']);
  t.same(responses([user, { type: 'reasoning', id: 'rs_unknown', summary: [] }, call, output]).places, ['input[1]']);
  t.throws(() => responses([user, { type: 'item_reference', id: 'msg_unknown' }]), { code: 'item_not_found' });
  t.throws(() => responses([user, { type: 'item_reference', id: 'rs_unknown' }], { foreignThinking: 'reject' }), {
    code: 'item_not_found',
  });
});

t.test('responses: a summary that cannot be decrypted is an error that explains what to send', async (t) => {
  for (const encrypted_content of ['gAAAAABo', removed.seal('compaction', 'x', here)]) {
    t.throws(() => responses([{ type: 'compaction', encrypted_content }, user]), {
      code: 'invalid_encrypted_content',
      status: 400,
      message: /another service created it, or its key was removed\. Send the messages it replaced/,
    });
  }
});

t.test('chat: an encrypted entry of reasoning_details is listed, and the text next to it is used', async (t) => {
  const body = {
    model: 'm',
    messages: [
      user,
      {
        role: 'assistant',
        content: '4',
        reasoning_details: [
          { type: 'reasoning.encrypted', data: 'gAAAA' },
          { type: 'reasoning.text', text: 'Adding.' },
        ],
      },
      user,
    ],
  };
  const chat = read(parseChat(body).content({ maxN: 1 }).request);
  t.same(chat.places, ['messages[1].reasoning_details[0]']);
  t.same(reasoningIn(chat), ['Adding.']);
  t.throws(() => parseChat(body, 'reject'), {
    code: 'invalid_encrypted_content',
    status: 400,
    param: 'messages[1].reasoning_details[0]',
  });
});

t.test('the header has at most 16 paths, and the log has all of them', async (t) => {
  const headers = new Map<string, string>();
  const logged: Record<string, unknown> = {};
  const caller = {
    setHeader: (name: string, value: string) => void headers.set(name, value),
    annotate: (fields: object) => void Object.assign(logged, fields),
  };
  const paths = Array.from({ length: 17 }, (_, index) => ({ path: `input[${index}]`, reason: 'foreign' as const }));
  nameLeftOut(caller, paths.slice(0, 16));
  t.equal(
    headers.get('x-ignored-content'),
    paths
      .slice(0, 16)
      .map(({ path }) => path)
      .join(', '),
  );
  nameLeftOut(caller, paths);
  t.match(headers.get('x-ignored-content'), /input\[15\], and more$/);
  t.match(logged['ignored_content'], /input\[16\]$/);
  nameLeftOut(caller, [{ path: 'previous_response_id:rs_\r\nx: y', reason: 'foreign' }]);
  t.equal(headers.get('x-ignored-content'), 'previous_response_id:rs___x:_y');
});

t.test(
  'the position of thinking within a turn is known, so that an upstream gets the turn back in order',
  async (t) => {
    const { request } = messages([
      user,
      { role: 'assistant', content: [thought(sealer, 'A long thought.'), { type: 'text', text: 'Hello.' }, use] },
      { role: 'user', content: [result] },
    ]);
    t.match(request.messages[1], {
      content: 'Hello.',
      thoughts: [{ text: 'A long thought.', after: { text: 0, calls: 0 } }],
    });
    const only = [user, { role: 'assistant', content: [thought(sealer, 'Mine.', { model: 'other' })] }];
    t.throws(() => messages(only.slice(1)), { code: 'missing_required_parameter' }, 'nothing is left of the request');
  },
);

t.test('reasoning between a hosted tool and the answer belongs to the answer', async (t) => {
  const { request } = responses([
    user,
    { type: 'web_search_call', id: 'ws_1', action: { type: 'search', query: 'sum' } },
    { type: 'reasoning', id: 'rs_1', summary: [], content: [{ type: 'reasoning_text', text: 'It is four.' }] },
    { role: 'assistant', content: '4' },
    { role: 'user', content: 'Thanks.' },
  ]);
  t.match(request.messages[1], { content: '[web_search_call]\nsum\n\n4', thoughts: [{ text: 'It is four.' }] });
});

t.test('long histories are read in linear time', async (t) => {
  const began = performance.now();
  const summaries = Array.from({ length: 20_000 }, () => [
    { role: 'system', content: 's' },
    { role: 'assistant', content: [{ type: 'compaction', content: 'c' }] },
  ]).flat();
  messages([...summaries, user]);
  const calls = Array.from({ length: 10_000 }, (_, index) => [
    { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'x' }] },
    { type: 'function_call', call_id: `c${index}`, name: 'f', arguments: '{}' },
  ]).flat();
  const outputs = Array.from({ length: 10_000 }, (_, index) => ({
    type: 'function_call_output',
    call_id: `c${index}`,
    output: '',
  }));
  responses([user, ...calls, ...outputs]);
  t.ok(performance.now() - began < 5_000, `${Math.round(performance.now() - began)} ms`);
});

t.test('encrypted reasoning details are listed once, as content', async (t) => {
  const { request, ignored } = parseChat({
    model: 'm',
    messages: [
      user,
      {
        role: 'assistant',
        content: '4',
        reasoning_details: [{ type: 'reasoning.encrypted', data: 'x', id: 'r', format: 'f' }],
      },
      user,
    ],
    verbosity: 'low',
  }).content({ maxN: 1 });
  t.same(ignored, ['verbosity']);
  t.same(request.ignored, ['verbosity'], 'an upstream adds to this list');
  t.same(request.leftOut, [{ path: 'messages[1].reasoning_details[0]', reason: 'foreign' }]);
});
