// Describes how each call is tested: its path, sample values for members whose type is not specific enough, and the
// rest of the request that a member needs in order to be valid.
import type { Body, CallSpec } from './walk.js';
import type { Call } from './types.js';

export const model = 'hal-1.0';
const schema = { type: 'object', properties: {} };
const grammar = 'start: "a"';
const image =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const greeting = { role: 'user', content: 'hi' };

type Entries = Record<string, unknown>[];

const list = (body: Body, name: string): Entries => (Array.isArray(body[name]) ? (body[name] as Entries) : []);
const before = (name: string, entries: (list: Entries) => Entries) => (body: Body) => {
  body[name] = [...entries(list(body, name)), ...list(body, name)];
};
const after = (name: string, entries: (list: Entries) => Entries) => (body: Body) => {
  body[name] = [...list(body, name), ...entries(list(body, name))];
};
const set = (members: Body) => (body: Body) => {
  Object.assign(body, members);
};
/** Returns the content blocks of the last message. */
const blocks = (entries: Entries): Entries => (entries.at(-1)?.['content'] ?? []) as Entries;

const chatCall = (id: unknown) => ({ type: 'function', id, function: { name: 'word', arguments: '{}' } });

const chat: CallSpec = {
  path: '/v1/chat/completions',
  base: { model, max_tokens: 1, messages: [greeting] },
  samples: {
    model,
    logit_bias: { 5: 1 },
    'response_format[json_schema].json_schema': { name: 'word', schema },
    'response_format[json_schema].json_schema.schema': schema,
    'tool_choice[allowed_tools].allowed_tools.tools': [{ type: 'function', function: { name: 'word' } }],
    'tools[custom].custom.format[grammar].grammar.definition': grammar,
    'messages[assistant]': { content: 'word' },
    'messages[user].content[image_url].image_url.url': image,
  },
  repairs: {
    'messages[assistant]': after('messages', () => [greeting]),
    'messages[assistant].refusal': (body) => {
      body['messages'] = list(body, 'messages').map(({ content, ...rest }) =>
        rest['role'] === 'assistant' ? rest : { ...rest, content },
      );
    },
    'messages[assistant].tool_calls': (body) => {
      const called = list(body, 'messages').findIndex((message) => 'tool_calls' in message);
      const calls = (list(body, 'messages')[called]?.['tool_calls'] ?? []) as Entries;
      body['messages'] = list(body, 'messages').toSpliced(
        called + 1,
        0,
        ...calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'word' })),
      );
    },
    'messages[assistant].function_call': (body) => {
      body['messages'] = list(body, 'messages').flatMap((message) =>
        'function_call' in message
          ? [message, { role: 'function', name: Object(message['function_call']).name as unknown, content: 'word' }]
          : [message],
      );
    },
    'messages[function]': before('messages', (entries) => [
      { role: 'assistant', function_call: { name: entries.at(-1)?.['name'], arguments: '{}' } },
    ]),
    'messages[tool]': before('messages', (entries) => [
      { role: 'assistant', tool_calls: [chatCall(entries.at(-1)?.['tool_call_id'])] },
    ]),
    tool_choice: set({
      tools: [
        { type: 'function', function: { name: 'word' } },
        { type: 'custom', custom: { name: 'other' } },
      ],
    }),
    'tool_choice[custom]': set({ tools: [{ type: 'custom', custom: { name: 'word' } }] }),
    stream_options: set({ stream: true }),
    top_logprobs: set({ logprobs: true }),
  },
  promptTokens: (answer) => (answer as { usage: { prompt_tokens: number } }).usage.prompt_tokens,
};

const completions: CallSpec = {
  path: '/v1/completions',
  base: { model, max_tokens: 1, prompt: 'hi' },
  samples: { model, logit_bias: { 5: 1 } },
  repairs: { stream_options: set({ stream: true }) },
  promptTokens: chat.promptTokens,
};

const INPUT_ROLES = ['user', 'assistant', 'system', 'developer'];
const ofAll = (paths: readonly string[], value: unknown): Body =>
  Object.fromEntries(paths.map((path) => [path, value]));
const toolLists = ['tools', 'input[additional_tools,developer].tools'];
const answers = (type: string) =>
  after('input', (entries) => {
    const found = entries.find((entry) => entry['type'] === type);
    return [{ type: `${type}_output`, call_id: found?.['call_id'], output: 'word' }];
  });
const calls = (type: string, member: string) =>
  before('input', (entries) => {
    const found = entries.find((entry) => entry['type'] === `${type}_output`);
    return [
      { type, call_id: found?.['call_id'] ?? 'word', name: 'word', namespace: found?.['namespace'], [member]: '{}' },
    ];
  });

const responses: CallSpec = {
  path: '/v1/responses',
  base: { model, max_output_tokens: 1, store: false, input: 'hi' },
  samples: {
    model,
    ...ofAll(
      toolLists
        .flatMap((path) => [path, `${path}[namespace].tools`])
        .map((path) => `${path}[custom].format[grammar].definition`),
      grammar,
    ),
    ...ofAll(
      INPUT_ROLES.map((role) => `input[message,${role}].content[input_image]`),
      { image_url: image },
    ),
    'tool_choice[allowed_tools].tools': [{ type: 'function', name: 'word' }],
    'input[message,user].content[input_image].image_url': image,
    ...ofAll(
      ['function_call_output', 'custom_tool_call_output'].map((type) => `input[${type}].output[input_image]`),
      { image_url: image },
    ),
    ...ofAll(
      ['function_call_output', 'custom_tool_call_output'].map((type) => `input[${type}].output[input_image].image_url`),
      image,
    ),
  },
  repairs: {
    'input[': (body) => {
      if (typeof body['input'] === 'string') body['input'] = [];
    },
    'input[function_call_output]': calls('function_call', 'arguments'),
    'input[custom_tool_call_output]': calls('custom_tool_call', 'input'),
    'input[function_call]': answers('function_call'),
    'input[custom_tool_call]': answers('custom_tool_call'),
    'input[additional_tools': after('input', () => [greeting]),
    'input[agent_message]': after('input', () => [greeting]),
    'input[compaction_trigger]': (body) => {
      body['input'] = [greeting, ...list(body, 'input')];
    },
    // The item goes into the current turn, because templates show only the reasoning of that turn.
    'input[reasoning]': (body) => {
      body['input'] = [
        greeting,
        ...list(body, 'input'),
        { type: 'function_call', call_id: 'word', name: 'word', arguments: '{}' },
        { type: 'function_call_output', call_id: 'word', output: 'word' },
      ];
    },
    tool_choice: set({ tools: [{ type: 'function', name: 'word' }] }),
    'tool_choice[custom]': set({ tools: [{ type: 'custom', name: 'word' }] }),
    stream_options: set({ stream: true }),
    background: set({ store: true }),
  },
  promptTokens: (answer) => (answer as { usage: { input_tokens: number } | null }).usage?.input_tokens,
};

const atLeastTwo = (type: string, list: string, entry: object) => (body: Body) => {
  body['questions'] = (body['questions'] as Entries).map((question) =>
    question['type'] === type ? { ...question, [list]: [...(question[list] as Entries), entry] } : question,
  );
};

const decisions: CallSpec = {
  path: '/v1/decisions',
  base: { model, input: 'hi', questions: [{ type: 'predicate', instructions: 'hi' }] },
  samples: {
    model,
    ...ofAll(
      [
        'input[message,user].content',
        ...['function_call_output', 'custom_tool_call_output'].map((type) => `input[${type}].output`),
        ...['predicate', 'choice', 'score'].map((type) => `questions[${type}].instructions`),
      ].map((path) => `${path}[input_image].image_url`),
      image,
    ),
  },
  repairs: {
    'input[': responses.repairs!['input[']!,
    'input[function_call_output]': calls('function_call', 'arguments'),
    'input[custom_tool_call_output]': calls('custom_tool_call', 'input'),
    'input[function_call]': answers('function_call'),
    'input[custom_tool_call]': answers('custom_tool_call'),
    'questions[choice]': atLeastTwo('choice', 'choices', { value: 'other' }),
    'questions[score]': atLeastTwo('score', 'levels', { label: 'other' }),
  },
  promptTokens: responses.promptTokens,
};

const inputTokens: CallSpec = {
  ...responses,
  path: '/v1/responses/input_tokens',
  base: { model, input: 'hi' },
  promptTokens: (answer) => (answer as { input_tokens: number }).input_tokens,
};

const contents = ['messages[user].content', 'messages[user].content[tool_result].content'];
const documents = contents.map((path) => `${path}[document]`);
const images = [...contents, ...documents.map((path) => `${path}.source[content].content`)].map(
  (path) => `${path}[image]`,
);

const messages: CallSpec = {
  path: '/v1/messages',
  base: { model, max_tokens: 1, messages: [greeting] },
  samples: {
    model,
    'thinking[enabled].budget_tokens': 1_024,
    'tools[custom].input_schema[object].properties': { a: { type: 'string' } },
    ...ofAll(documents, { source: { type: 'text', media_type: 'text/plain', data: 'word' } }),
    ...ofAll(
      images.map((path) => `${path}.source[base64].data`),
      image.split(',')[1],
    ),
    ...ofAll(
      images.map((path) => `${path}.source[url].url`),
      image,
    ),
    'messages[assistant].content[compaction]': { content: 'word' },
    'messages[system]': { content: 'word' },
  },
  repairs: {
    'messages[': after('messages', () => [greeting]),
    'messages[system]': before('messages', () => [greeting]),
    'messages[user].content[tool_result]': before('messages', (entries) => [
      {
        role: 'assistant',
        content: blocks(entries.slice(0, -1)).map(({ tool_use_id: id }) => ({
          type: 'tool_use',
          id,
          name: 'word',
          input: {},
        })),
      },
    ]),
    'messages[assistant].content[tool_use]': (body) => {
      const [called, last] = list(body, 'messages');
      const results = blocks([called ?? {}]).map(({ id }) => ({
        type: 'tool_result',
        tool_use_id: id,
        content: 'word',
      }));
      body['messages'] = [called, { role: 'user', content: results }, last];
    },
    thinking: set({ max_tokens: 1_025 }),
    tool_choice: set({ tools: [{ name: 'word', input_schema: schema }] }),
  },
  promptTokens: (answer) => {
    const { usage } = answer as { usage: { input_tokens: number; cache_read_input_tokens: number } };
    return usage.input_tokens + usage.cache_read_input_tokens;
  },
};

/** Values that only the server can create. */
export interface Stored {
  /** ID of a response. */
  response: string;
  /** ID of an item. */
  item: string;
  /** Encrypted summary. */
  summary: string;
}

export function callSpecs({ response, item, summary }: Stored): Readonly<Record<Exclude<Call, 'socket'>, CallSpec>> {
  const withStored = (spec: CallSpec): CallSpec => ({
    ...spec,
    samples: {
      ...spec.samples,
      previous_response_id: response,
      'input[item_reference].id': item,
      'input[compaction].encrypted_content': summary,
    },
  });
  return {
    chat,
    completions,
    decisions,
    responses: withStored(responses),
    inputTokens: withStored(inputTokens),
    compact: withStored({ ...responses, path: '/v1/responses/compact', base: { model, input: 'hi' } }),
    messages,
    countTokens: {
      ...messages,
      path: '/v1/messages/count_tokens',
      base: { model, messages: [greeting] },
      promptTokens: inputTokens.promptTokens,
    },
  };
}
