// Tests the server's own web search through the official clients, with a search service in this process and a model
// that writes scripted output. test/generation/upstream/web-search.test.ts covers what the model receives.
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t from 'tap';
import { message as messageSchema } from '../../src/protocol/openapi/answers/messages.js';
import { response as responseSchema, responseEvent } from '../../src/protocol/openapi/answers/responses.js';
import { mismatch } from '../support/open-api.js';
import { startScripted, type Script } from '../support/script-model.js';
import { page, results, startSearchServer } from '../support/search-server.js';
import { Connection } from '../support/web-socket.js';
import { ask, get, post } from '../support/wire.js';
import { startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const called = (query: string): Script => [
  '<tool_call>',
  '\n{"name": "web_se',
  `arch", "arguments": {"query": "${query}`,
  '"}}\n',
  '</tool_call>',
];
const scripts: Readonly<Record<string, Script>> = {
  A: ['A plain', ' answer', '.'],
  S: called('tallest tower'),
  L: ['Let me', ' look. ', ...called('longest river')],
  R: ['<think>', '\nI must', ' search', '.\n', '</think>', '\n\n', ...called('deepest lake')],
  T: ['It is', ' in the', ' results', '!'],
};

const search = await startSearchServer(
  results(page('a.example', { publishedDate: '2026-01-02T00:00:00' }), page('b.example')),
);
const server = await startScripted({ scripts, env: { MONOLITH_TOOLS_WEB_SEARCH_URL: search.url } });
t.teardown(async () => {
  await server.stop();
  await search.close();
});

const anthropic = new Anthropic({ baseURL: server.url, apiKey: server.key, maxRetries: 0 });
const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
const model = 'tycho-1.0';
const webSearch = { type: 'web_search_20250305', name: 'web_search' } as const;
const asked = (content: string): Anthropic.MessageParam[] => [{ role: 'user', content }];
const types = (list: readonly { type: string }[]): string[] => list.map(({ type }) => type);
const total = ({ usage }: Anthropic.Message): number => usage.input_tokens + (usage.cache_read_input_tokens ?? 0);

/** Selects the parts of a message that are the same in every response to the same request. */
const lasting = ({ content, stop_reason, usage }: Anthropic.Message): object => ({
  content: content.map((block) => ({
    ...block,
    ...('id' in block ? { id: '' } : {}),
    ...('tool_use_id' in block ? { tool_use_id: '' } : {}),
    ...('signature' in block ? { signature: '' } : {}),
    parsed_output: undefined,
  })),
  stop_reason,
  output: usage.output_tokens,
  searches: usage.server_tool_use,
});

t.test('Messages: runs a search and continues the turn', async (t) => {
  const request = { model, max_tokens: 500, messages: asked('L: Which is the longest?'), tools: [webSearch] };
  const whole = await anthropic.messages.create(request);
  t.equal(messageSchema.safeParse(whole).error, undefined, 'it matches the published schema');
  t.same(types(whole.content), ['text', 'server_tool_use', 'web_search_tool_result', 'text']);
  const [before, call, result, after] = whole.content;
  t.match(before, { text: 'Let me look.' });
  t.match(call, { id: /^srvtoolu_/, name: 'web_search', input: { query: 'longest river' } });
  t.match(result, {
    tool_use_id: (call as { id: string }).id,
    content: [
      { type: 'web_search_result', url: 'https://a.example/page', title: 'About a.example', page_age: /^2026-01-02/ },
      { url: 'https://b.example/page', page_age: null },
    ],
  });
  t.match(after, { text: 'It is in the results!' });
  t.equal(whole.stop_reason, 'end_turn');
  t.same(whole.usage.server_tool_use, { web_search_requests: 1, web_fetch_requests: 0 });
  t.equal(search.queries.at(-1), 'longest river');

  const stream = anthropic.messages.stream(request);
  const seen: string[] = [];
  for await (const event of stream) if (event.type === 'content_block_start') seen.push(event.content_block.type);
  t.same(seen, types(whole.content));
  t.same(lasting(await stream.finalMessage()), lasting(whole), 'the stream has the same blocks');

  const history: Anthropic.MessageParam[] = [...request.messages, { role: 'assistant', content: whole.content }];
  const next = await anthropic.messages.create({ ...request, messages: [...history, ...asked('A: Thanks.')] });
  t.match(next.content, [{ type: 'text', text: 'A plain answer.' }]);
  t.equal(next.usage.server_tool_use, null);
});

t.test('Messages: a forced search is made once, and every prompt of the turn counts', async (t) => {
  const request = { model, max_tokens: 500, messages: asked('S: How tall?'), tools: [webSearch] };
  const tool_choice = { type: 'tool', name: 'web_search' } as const;
  const before = search.queries.length;
  const forced = await anthropic.messages.create({ ...request, tool_choice });
  t.same(types(forced.content), ['server_tool_use', 'web_search_tool_result', 'text']);
  t.equal(search.queries.length, before + 1);
  const { input_tokens: first } = await anthropic.messages.countTokens({ ...request, tool_choice });
  t.ok(total(forced) > 2 * first, `${total(forced)} tokens are those of two prompts; the first has ${first}`);
});

t.test('Messages: reasoning before a search stays in the turn', async (t) => {
  const request = {
    model,
    max_tokens: 2_000,
    messages: asked('R: How deep?'),
    tools: [webSearch],
    thinking: { type: 'enabled', budget_tokens: 1_024 },
  } as const;
  const message = await anthropic.messages.create({ ...request, messages: [...request.messages], tools: [webSearch] });
  t.same(types(message.content).slice(0, 3), ['thinking', 'server_tool_use', 'web_search_tool_result']);
  t.equal(message.content.at(-1)?.type, 'text');
});

t.test('Responses: runs a search, streams its events and stores its results', async (t) => {
  const request = { model, input: 'L: Which is the longest?', tools: [{ type: 'web_search' as const }] };
  const whole = await openai.responses.create({ ...request, include: ['web_search_call.action.sources'] });
  t.same(types(whole.output), ['message', 'web_search_call', 'message']);
  t.match(whole.output[1], {
    id: /^ws_/,
    status: 'completed',
    action: {
      type: 'search',
      query: 'longest river',
      queries: ['longest river'],
      sources: [
        { type: 'url', url: 'https://a.example/page' },
        { type: 'url', url: 'https://b.example/page' },
      ],
    },
  });
  t.equal(whole.output_text, 'Let me look.It is in the results!');
  t.match(whole.tools, [{ type: 'web_search', filters: null }]);
  t.match(whole, { tool_usage: { web_search: { num_requests: 1 } } });
  t.equal(responseSchema.safeParse(withoutText(whole)).error, undefined, 'it matches the published schema');
  t.equal(mismatch('openai', 'Response', withoutText(whole)), null);

  const events: OpenAI.Responses.ResponseStreamEvent[] = [];
  for await (const event of await openai.responses.create({ ...request, stream: true })) events.push(event);
  const at = events.findIndex(({ type }) => type === 'response.web_search_call.in_progress');
  t.same(types(events.slice(at - 1, at + 4)), [
    'response.output_item.added',
    'response.web_search_call.in_progress',
    'response.web_search_call.searching',
    'response.web_search_call.completed',
    'response.output_item.done',
  ]);
  for (const event of events) t.equal(responseEvent.safeParse(event).error, undefined, event.type);
  const last = events.at(-1);
  t.equal(last?.type, 'response.completed');
  const { id, output } = (last as OpenAI.Responses.ResponseCompletedEvent).response;
  t.same(types(output), types(whole.output));
  t.notMatch(output[1], { action: { sources: [] } }, 'sources are shown only if requested');

  const stored = await openai.responses.retrieve(id);
  t.same(stored.output, output);
});

t.test('Responses: a stored response replays the events of its search', async (t) => {
  const made = await openai.responses.create({ model, input: 'S: How tall?', tools: [{ type: 'web_search' }] });
  const events: string[] = [];
  for await (const { type } of await openai.responses.retrieve(made.id, { stream: true })) events.push(type);
  t.same(
    events.filter((type) => type.includes('web_search')),
    ['in_progress', 'searching', 'completed'].map((state) => `response.web_search_call.${state}`),
  );
});

t.test('Responses: the results stay in a stored chain, and clients do not see them', async (t) => {
  const tools = [{ type: 'web_search_preview' as const }];
  const first = await openai.responses.create({ model, input: 'S: How tall?', tools, tool_choice: tools[0]! });
  t.same(types(first.output), ['web_search_call', 'message']);
  t.same(first.tool_choice, { type: 'web_search_preview' });
  const next = await openai.responses.create({ model, input: 'A: Thanks.', previous_response_id: first.id });
  const bare = await openai.responses.create({
    model,
    store: false,
    input: [
      { role: 'user', content: 'S: How tall?' },
      { role: 'assistant', content: 'It is in the results!' },
      { role: 'user', content: 'A: Thanks.' },
    ],
  });
  t.ok(next.usage!.input_tokens > bare.usage!.input_tokens + 80, 'the prompt has the results');
  const items: { type: string }[] = [];
  for await (const item of openai.responses.inputItems.list(next.id, { order: 'asc' }))
    items.push(item as { type: string });
  t.same(types(items), ['message', 'web_search_call', 'message', 'message']);
  t.notOk(JSON.stringify(items).includes('a.example'), 'the items show only the query');
  const sent = await openai.responses.create({
    model,
    store: false,
    input: [
      { role: 'user', content: 'S: How tall?' },
      ...(first.output as OpenAI.Responses.ResponseInputItem[]),
      { role: 'user', content: 'A: Thanks.' },
    ],
  });
  t.equal(sent.usage!.input_tokens, next.usage!.input_tokens, 'an item that is sent back gets its results again');
});

t.test('Responses: a background response searches', async (t) => {
  const tools = [{ type: 'web_search' as const }];
  let response = await openai.responses.create({ model, input: 'S: How tall?', tools, background: true });
  while (response.status === 'queued' || response.status === 'in_progress') {
    await new Promise((done) => setTimeout(done, 50));
    response = await openai.responses.retrieve(response.id);
  }
  t.equal(response.status, 'completed');
  t.same(types(response.output), ['web_search_call', 'message']);
});

t.test('Responses: a background response searches after its client has left', async (t) => {
  const answer = search.answer;
  t.teardown(() => {
    search.answer = answer;
  });
  let respond = (): void => undefined;
  const asked = new Promise<void>((resolve) => {
    search.answer = (...given) => {
      respond = () => answer(...given);
      resolve();
    };
  });
  const tools = [{ type: 'web_search' as const }];
  const leaving = new AbortController();
  const request = { model, input: 'S: How tall?', tools, background: true, stream: true } as const;
  const stream = await openai.responses.create(request, { signal: leaving.signal });
  let id = '';
  for await (const event of stream) {
    if (event.type !== 'response.created') continue;
    id = event.response.id;
    break;
  }
  leaving.abort();
  await asked;
  await new Promise((done) => setTimeout(done, 200)); // until the server has noticed
  respond();
  let response = await openai.responses.retrieve(id);
  while (response.status === 'queued' || response.status === 'in_progress') {
    await new Promise((done) => setTimeout(done, 50));
    response = await openai.responses.retrieve(id);
  }
  t.equal(response.status, 'completed');
  t.same(types(response.output), ['web_search_call', 'message']);
});

t.test('Responses: a WebSocket connection keeps the results of responses that are not stored', async (t) => {
  const connection = await Connection.open(server);
  t.teardown(() => connection.socket.terminate());
  const turn = async (body: object): Promise<OpenAI.Responses.Response> =>
    (
      (await connection.turn({ model, store: false, ...body })).at(-1) as unknown as {
        response: OpenAI.Responses.Response;
      }
    ).response;
  const first = await turn({ input: 'S: How tall?', tools: [{ type: 'web_search' }] });
  t.same(types(first.output), ['web_search_call', 'message']);
  const next = await turn({ input: 'A: Thanks.', previous_response_id: first.id });
  const { usage } = await turn({ input: 'A: Thanks.' });
  t.ok(next.usage!.input_tokens > usage!.input_tokens + 150, 'the prompt has the results');
});

t.test('Chat Completions: runs searches, which the response does not show', async (t) => {
  const request = {
    model,
    reasoning_effort: 'none' as const,
    messages: [{ role: 'user' as const, content: 'L: Which is the longest?' }],
    web_search_options: {},
  };
  const before = search.queries.length;
  const whole = await openai.chat.completions.create(request);
  t.equal(search.queries.length, before + 1);
  const [choice] = whole.choices;
  t.match(choice, {
    finish_reason: 'stop',
    message: { content: 'Let me look.\n\nIt is in the results!', annotations: [], tool_calls: undefined },
  });
  let text = '';
  let finish: string | null = null;
  for await (const chunk of await openai.chat.completions.create({ ...request, stream: true })) {
    text += chunk.choices[0]?.delta.content ?? '';
    finish = chunk.choices[0]?.finish_reason ?? finish;
  }
  t.equal(text, choice?.message.content);
  t.equal(finish, 'stop');
  const several = await ask(server, '/v1/chat/completions', { ...request, n: 2 });
  t.match(several, { status: 422, body: { error: { code: 'conflicting_parameters', param: 'n' } } });
});

t.test('options without effect are listed', async (t) => {
  const user_location = { type: 'approximate', city: 'Paris' };
  const chat = await post(server, '/v1/chat/completions', {
    model,
    messages: asked('A: Hello.'),
    web_search_options: { user_location, search_context_size: 'medium' },
  });
  t.equal(chat.headers.get('x-ignored-parameters'), 'web_search_options.user_location');
  const messages = await post(server, '/v1/messages', {
    model,
    max_tokens: 10,
    messages: asked('A: Hello.'),
    tools: [{ ...webSearch, user_location, cache_control: { type: 'ephemeral' } }],
  });
  t.equal(messages.headers.get('x-ignored-parameters'), 'tools.user_location');
  t.equal(messages.headers.get('x-ignored-tools'), null);
  const responses = await post(server, '/v1/responses', {
    model,
    input: 'A: Hello.',
    tools: [{ type: 'web_search', search_context_size: 'high' }, { type: 'web_search_preview' }],
  });
  t.equal(responses.headers.get('x-ignored-parameters'), 'tools.search_context_size');
  t.equal(responses.headers.get('x-ignored-tools'), 'web_search_preview', 'only one search tool is used');
});

t.test('a turn ends if its results do not fit in the context', async (t) => {
  search.answer = results(
    ...Array.from({ length: 5 }, (_, at) => page(`${at}.example`, { content: 'x'.repeat(2_000) })),
  );
  t.teardown(() => {
    search.answer = results(page('a.example'));
  });
  const small = await startScripted({
    scripts,
    context: 2_048,
    env: { MONOLITH_TOOLS_WEB_SEARCH_URL: search.url },
  });
  t.teardown(() => small.stop());
  const { status, body } = await ask(small, '/v1/messages', {
    model,
    max_tokens: 100,
    messages: asked('S: How tall?'),
    tools: [webSearch],
  });
  t.equal(status, 200);
  t.match(body, { stop_reason: 'model_context_window_exceeded' });
  t.same(types((body as Anthropic.Message).content), ['server_tool_use', 'web_search_tool_result', 'text']);
});

t.test('an embedded model runs a required search, and the model description shows the capability', async (t) => {
  const embedded = await startMonolith({ env: { MONOLITH_TOOLS_WEB_SEARCH_URL: search.url } });
  t.teardown(() => embedded.stop());
  const client = new Anthropic({ baseURL: embedded.url, apiKey: embedded.key, maxRetries: 0 });
  const message = await client.messages.create({
    model,
    max_tokens: 200,
    messages: asked('Search the web for the tallest tower.'),
    tools: [{ ...webSearch, max_uses: 1 }],
    tool_choice: { type: 'tool', name: 'web_search' },
  });
  t.same(types(message.content).slice(0, 2), ['server_tool_use', 'web_search_tool_result']);
  const info = await get(embedded, `/v1/models/${model}`, { 'anthropic-version': '2023-06-01' });
  t.match(info.body, { capabilities: { server_tools: { supported: true, web_search: { supported: true } } } });
});

t.test('without the setting, search tools are ignored and web_search_options is refused', async (t) => {
  const plain = await startScripted({ scripts });
  t.teardown(() => plain.stop());
  const messages = await post(plain, '/v1/messages', {
    model,
    max_tokens: 100,
    messages: asked('A: Hello.'),
    tools: [webSearch],
  });
  t.equal(messages.headers.get('x-ignored-tools'), 'web_search_20250305');
  const responses = await post(plain, '/v1/responses', { model, input: 'A: Hello.', tools: [{ type: 'web_search' }] });
  t.equal(responses.headers.get('x-ignored-tools'), 'web_search');
  const chat = await ask(plain, '/v1/chat/completions', {
    model,
    messages: asked('A: Hello.'),
    web_search_options: {},
  });
  t.match(chat, { status: 422, body: { error: { code: 'unsupported_feature', param: 'web_search_options' } } });
});

/** Removes `output_text`, which the client adds to the response. */
function withoutText({ output_text: _text, ...response }: OpenAI.Responses.Response): object {
  return response;
}
