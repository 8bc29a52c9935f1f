// Tests the prompts and the failures of web searches, with a scripted upstream and a search service in this process.
// test/e2e/web-search.test.ts covers the formats with the official clients.
import type { ServerResponse } from 'node:http';
import { inspect } from 'node:util';
import t from 'tap';
import { SearchService } from '../../../src/generation/web-search/search-service.js';
import { eventually } from '../../e2e/monolith.js';
import { startOtlpReceiver } from '../../support/otlp-receiver.js';
import { page, results, startSearchServer, type SearchAnswer } from '../../support/search-server.js';
import { startGateway, startStandIn, type Gateway, type Say } from '../../support/stand-in.js';

type Json = Record<string, any>;

t.setTimeout(120_000); // the machine may be busy

const USAGE = { prompt_tokens: 10, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 4 } };

const chunks = (response: ServerResponse, ...events: (object | string)[]): void => {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.end(events.map((one) => `data: ${typeof one === 'string' ? one : JSON.stringify(one)}\n\n`).join(''));
};
const says =
  (content: string): Say =>
  (response) =>
    chunks(
      response,
      { choices: [{ index: 0, delta: { content }, finish_reason: 'stop' }] },
      { choices: [], usage: USAGE },
      '[DONE]',
    );
const calls =
  (...all: [name: string, given: object][]): Say =>
  (response) =>
    chunks(
      response,
      ...all.map(([name, given], index) => ({
        choices: [
          {
            index: 0,
            delta: {
              tool_calls: [
                { index, id: `call_${index}`, type: 'function', function: { name, arguments: JSON.stringify(given) } },
              ],
            },
          },
        ],
      })),
      { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] },
      { choices: [], usage: USAGE },
      '[DONE]',
    );
const searches = (...queries: string[]): Say =>
  calls(...queries.map((query): [string, object] => ['web_search', { query }]));

/** The responses to the next requests, in order. The last response is repeated. */
let script: Say[] = [];
const upstream = await startStandIn((response, heard) =>
  (script.length > 1 ? script.shift() : script[0])?.(response, heard),
);
const search = await startSearchServer();
const startWith = (timeout_ms: number): Promise<Gateway> =>
  startGateway(
    {
      chat: { upstream: { url: upstream.url } },
      claude: { upstream: { url: upstream.url, api: 'messages' } },
      openai: { upstream: { url: upstream.url, api: 'responses' } },
    },
    {
      tools: { web_search: { url: search.url, timeout_ms, results: 3 } },
      limits: { concurrency: 1, rpm: null, tpm: null },
    },
  );
const gateway = await startWith(400);
/** The gateway's web searches do not time out during a test. */
const patient = await startWith(60_000);
t.teardown(async () => {
  await Promise.all([gateway.close(), patient.close()]);
  await Promise.all([upstream.close(), search.close()]);
});

t.beforeEach(() => {
  upstream.heard.length = 0;
  search.queries.length = 0;
  search.answer = results(page('a.example'), page('b.example'));
});

const tool = { type: 'web_search_20250305', name: 'web_search' };
const clock = { name: 'get_time', input_schema: { type: 'object', properties: {} } };
const ask = (change: object = {}): Json => ({
  model: 'chat',
  max_tokens: 100,
  messages: [{ role: 'user', content: 'How tall is it?' }],
  tools: [tool],
  ...change,
});

async function messages(body: Json, init: RequestInit = {}): Promise<Json> {
  const response = await gateway.post('/v1/messages', body, init);
  return { status: response.status, headers: response.headers, ...((await response.json()) as object) };
}

const types = (list: Json[]): string[] => list.map(({ type }) => String(type));
const resultsIn = ({ content }: Json): any[] =>
  (content as Json[]).filter(({ type }) => type === 'web_search_tool_result').map((block) => block['content']);
const sentMessages = (at: number): Json[] => upstream.heard[at]!.body['messages'] as Json[];

t.test('the next prompt has the call and its results, and the usage has the sums', async (t) => {
  script = [searches('tall tower'), says('300 m')];
  const answer = await messages(ask());
  t.equal(answer['status'], 200);
  t.same(search.queries, ['tall tower']);
  t.same(types(answer['content']), ['server_tool_use', 'web_search_tool_result', 'text']);
  t.match(answer['usage'], {
    input_tokens: 12,
    cache_read_input_tokens: 8,
    output_tokens: 10,
    server_tool_use: { web_search_requests: 1 },
  });
  t.equal(upstream.heard.length, 2);
  t.match(upstream.heard[0]!.body, { tools: [{ function: { name: 'web_search' } }] });
  const [, assistant, result] = sentMessages(1);
  t.match(assistant, { role: 'assistant', tool_calls: [{ function: { name: 'web_search' } }] });
  t.equal(JSON.parse(assistant!['tool_calls'][0].function.arguments).query, 'tall tower');
  t.match(result, { role: 'tool', tool_call_id: assistant!['tool_calls'][0].id });
  t.match(result!['content'], /^1\. About a\.example\nhttps:\/\/a\.example\/page\nThe text of a\.example\.\n\n2\. /);

  script = [says('Yes')];
  const next = { role: 'user', content: 'Sure?' };
  const history = [...ask()['messages'], { role: 'assistant', content: answer['content'] }, next];
  t.equal((await messages(ask({ messages: history })))['status'], 200);
  const said = String(sentMessages(2)[1]!['content']);
  for (const part of ['tall tower', 'https://b.example/page', 'The text of b.example.', '300 m'])
    t.ok(said.includes(part), `the next turn has ${part}`);
});

t.test("results of Anthropic's own searches stay unreadable", async (t) => {
  script = [says('Yes')];
  const block = {
    type: 'web_search_tool_result',
    tool_use_id: 'srvtoolu_1',
    content: [{ type: 'web_search_result', url: 'https://x.example', title: 'X', encrypted_content: 'EqgfCioIARgB' }],
  };
  await messages(
    ask({
      messages: [...ask()['messages'], { role: 'assistant', content: [block] }, { role: 'user', content: 'So?' }],
    }),
  );
  t.match(sentMessages(0)[1]!['content'], /X\nhttps:\/\/x\.example\n$/);
});

t.test('several searches of one turn run, and a later turn may search again', async (t) => {
  script = [searches('one', 'two'), searches('three'), says('Done')];
  const answer = await messages(ask());
  t.same(search.queries.toSorted(), ['one', 'three', 'two']);
  t.same(types(answer['content']), [
    ...['server_tool_use', 'web_search_tool_result', 'server_tool_use', 'web_search_tool_result'],
    ...['server_tool_use', 'web_search_tool_result', 'text'],
  ]);
  t.equal(answer['usage'].server_tool_use.web_search_requests, 3);
  t.same(
    sentMessages(2).map(({ role }) => String(role)),
    ['user', 'assistant', 'tool', 'tool', 'assistant', 'tool'],
  );
});

t.test("a turn with calls of both kinds ends with the client's call, after the results", async (t) => {
  script = [calls(['web_search', { query: 'x' }], ['get_time', {}])];
  const answer = await messages(ask({ tools: [tool, clock] }));
  t.same(types(answer['content']), ['server_tool_use', 'web_search_tool_result', 'tool_use']);
  t.equal(answer['stop_reason'], 'tool_use');
  t.equal(upstream.heard.length, 1);

  script = [says('Noon')];
  const results = [{ type: 'tool_result', tool_use_id: answer['content'][2].id, content: '12:00' }];
  const history = [
    ...ask()['messages'],
    { role: 'assistant', content: answer['content'] },
    { role: 'user', content: results },
  ];
  const next = await messages(ask({ tools: [tool, clock], messages: history }));
  t.equal(next['status'], 200);
  t.match(sentMessages(1).at(-1), { role: 'tool', content: '12:00' });

  script = [calls(['get_time', {}], ['web_search', { query: 'x' }], ['get_time', {}])];
  const chat = (await (
    await gateway.post('/v1/chat/completions', {
      model: 'chat',
      messages: ask()['messages'],
      tools: [{ type: 'function', function: { name: 'get_time' } }],
      web_search_options: {},
    })
  ).json()) as Json;
  t.match(chat['choices'][0], { finish_reason: 'tool_calls' });
  t.same(
    (chat['choices'][0].message.tool_calls as Json[]).map(({ function: { name } }) => String(name)),
    ['get_time', 'get_time'],
    'calls are numbered without the search',
  );
});

t.test('after max_uses searches, the model reads an error and can only answer', async (t) => {
  script = [searches('one'), searches('two'), says('Enough')];
  const answer = await messages(ask({ tools: [{ ...tool, max_uses: 1 }] }));
  t.same(search.queries, ['one']);
  t.same(resultsIn(answer)[1], { type: 'web_search_tool_result_error', error_code: 'max_uses_exceeded' });
  t.equal(answer['usage'].server_tool_use.web_search_requests, 1);
  t.equal(answer['stop_reason'], 'end_turn');
  t.match(sentMessages(2).at(-1), { role: 'tool', content: /maximum number of searches/ });
  t.equal(upstream.heard[2]!.body['tool_choice'], 'none');

  script = [searches('again')];
  upstream.heard.length = 0;
  const stubborn = await messages(ask({ tools: [{ ...tool, max_uses: 2 }] }));
  t.equal(stubborn['stop_reason'], 'end_turn', 'an upstream that ignores this does not search forever');
  t.equal(upstream.heard.length, 4);
  script = [searches('')];
  upstream.heard.length = 0;
  await messages(ask({ tools: [{ ...tool, max_uses: 2 }] }));
  t.equal(upstream.heard.length, 4, 'calls without a query count, too');
  const invalid = await messages(ask({ tools: [{ ...tool, max_uses: 0 }] }));
  t.match(invalid, { status: 422, error: { param: 'tools[0].max_uses' } });
});

t.test('a required call is required only once', async (t) => {
  script = [searches('one'), says('Done')];
  await messages(ask({ tool_choice: { type: 'tool', name: 'web_search' } }));
  t.match(upstream.heard[0]!.body['tool_choice'], { function: { name: 'web_search' } });
  t.not(JSON.stringify(upstream.heard[1]!.body['tool_choice'] ?? 'auto'), 'required');
  t.equal(upstream.heard[1]!.body['tool_choice'] ?? 'auto', 'auto');
});

const json = (response: ServerResponse, body: string): void => {
  response.writeHead(200, { 'content-type': 'application/json' }).end(body);
};
const failures: Readonly<Record<string, [answer: SearchAnswer, code: string]>> = {
  'a slow service': [(response) => void response.writeHead(200).write('{"results": ['), 'unavailable'],
  'status 500': [(response) => void response.writeHead(500).end('{"results": []}'), 'unavailable'],
  'status 429': [(response) => void response.writeHead(429).end(), 'too_many_requests'],
  'a redirect': [
    (response) => void response.writeHead(302, { location: search.url.replace('{query}', 'other') }).end(),
    'unavailable',
  ],
  'no JSON': [(response) => json(response, '<html>'), 'unavailable'],
  'JSON without a list': [(response) => json(response, '{"results": {}}'), 'unavailable'],
  'too large a response': [
    (response) => json(response, JSON.stringify({ results: [], padding: 'x'.repeat(1024 * 1024) })),
    'unavailable',
  ],
  'a broken connection': [(response) => void response.destroy(), 'unavailable'],
};
for (const [name, [answer, code]] of Object.entries(failures)) {
  t.test(`${name} is an error that the model reads`, async (t) => {
    search.answer = answer;
    script = [searches('x'), says('Sorry')];
    const found = await messages(ask());
    t.equal(found['status'], 200);
    t.same(resultsIn(found), [{ type: 'web_search_tool_result_error', error_code: code }]);
    t.match(found['content'].at(-1), { type: 'text', text: 'Sorry' });
    t.equal(found['usage'].server_tool_use, null);
    t.equal(search.queries.length, 1);
    t.match(sentMessages(1).at(-1), { role: 'tool', content: /^The search failed/ });
  });
}

t.test('calls without a query and queries that are too long are not sent', async (t) => {
  script = [calls(['web_search', {}], ['web_search', { query: 'x'.repeat(1_001) }]), says('Sorry')];
  const answer = await messages(ask());
  t.same(
    resultsIn(answer).map(({ error_code }) => String(error_code)),
    ['invalid_tool_input', 'query_too_long'],
  );
  t.same(search.queries, []);
});

t.test('queries are escaped, and at most the configured number of valid results is used', async (t) => {
  search.answer = results(
    { title: 'no address' },
    { title: 'not the web', url: 'file:///etc/passwd' },
    ...['a', 'a', 'b', 'c', 'd'].map((name) => page(`${name}.example`)),
    { url: 'https://later.example' },
  );
  const query = 'a&b=c $& {query} #é';
  script = [searches(query), says('Done')];
  const answer = await messages(ask());
  t.same(search.queries, [query]);
  t.same(
    (resultsIn(answer)[0] as Json[]).map(({ url }) => String(url)),
    ['https://a.example/page', 'https://b.example/page', 'https://c.example/page'],
  );
});

t.test('domain filters select results', async (t) => {
  search.answer = results(
    page('docs.a.example'),
    page('nota.example'),
    page('b.example', { url: 'https://b.example/blog/1' }),
    page('b.example', { url: 'https://b.example/shop/1' }),
  );
  const urls = async (filter: object): Promise<string[]> => {
    script = [searches('x'), says('Done')];
    const answer = await messages(ask({ tools: [{ ...tool, ...filter }] }));
    return (resultsIn(answer)[0] as Json[]).map(({ url }) => String(url));
  };
  t.same(await urls({ allowed_domains: ['a.example'] }), ['https://docs.a.example/page']);
  t.same(await urls({ allowed_domains: ['b.example/blog'] }), ['https://b.example/blog/1']);
  t.same(await urls({ allowed_domains: ['b.example/*/1', 'A.EXAMPLE'] }), [
    'https://docs.a.example/page',
    'https://b.example/blog/1',
    'https://b.example/shop/1',
  ]);
  t.same(await urls({ blocked_domains: ['a.example', 'b.example/shop'] }), [
    'https://nota.example/page',
    'https://b.example/blog/1',
  ]);
  t.same(await urls({ allowed_domains: ['none.example'] }), []);
  const both = await messages(ask({ tools: [{ ...tool, allowed_domains: ['a'], blocked_domains: ['b'] }] }));
  t.match(both, { status: 400, error: { type: 'invalid_request_error', code: 'conflicting_parameters' } });

  script = [searches('x'), says('Done')];
  const response = (await (
    await gateway.post('/v1/responses', {
      model: 'chat',
      input: 'How tall?',
      tools: [{ type: 'web_search', filters: { allowed_domains: ['a.example'] } }],
      include: ['web_search_call.action.sources', 'web_search_call.results'],
    })
  ).json()) as Json;
  t.match(response['output'][0], {
    action: { sources: [{ type: 'url', url: 'https://docs.a.example/page' }] },
    results: [{ title: 'About docs.a.example', text: 'The text of docs.a.example.' }],
  });
  t.match(response['tools'], [{ type: 'web_search', filters: { allowed_domains: ['a.example'] } }]);
});

t.test('a client may have a tool of the same name', async (t) => {
  const name = 'search_web_1';
  script = [calls([name, { query: 'x' }]), calls(['web_search', {}])];
  const response = (await (
    await gateway.post('/v1/responses', {
      model: 'chat',
      input: 'How tall?',
      tools: [{ type: 'web_search' }, { type: 'function', name: 'web_search', parameters: { type: 'object' } }],
    })
  ).json()) as Json;
  t.same(types(response['output']), ['web_search_call', 'function_call']);
  t.match(upstream.heard[0]!.body['tools'], [{ function: { name: 'web_search' } }, { function: { name } }]);
});

t.test('max_tool_calls limits the searches of a response', async (t) => {
  script = [searches('one', 'two'), says('Done')];
  const response = (await (
    await gateway.post('/v1/responses', {
      model: 'chat',
      input: 'How tall?',
      tools: [{ type: 'web_search' }],
      max_tool_calls: 1,
    })
  ).json()) as Json;
  t.same(search.queries, ['one']);
  t.same(
    (response['output'] as Json[]).map(({ type, status }) => `${type} ${status}`),
    ['web_search_call completed', 'web_search_call failed', 'message completed'],
  );
});

t.test('the results of a stored response reach the model in the next one', async (t) => {
  script = [searches('tall tower'), says('300 m')];
  const post = async (body: object): Promise<Json> =>
    (await (await gateway.post('/v1/responses', { model: 'chat', ...body })).json()) as Json;
  const first = await post({ input: 'How tall?', tools: [{ type: 'web_search' }] });
  script = [says('Yes')];
  const second = await post({ input: 'Sure?', previous_response_id: first['id'] });
  const third = await post({
    input: [{ role: 'user', content: 'How tall?' }, ...first['output'], { role: 'user', content: 'Sure?' }],
  });
  await post({ input: 'Really?', previous_response_id: second['id'] });
  await post({ input: 'Really?', previous_response_id: third['id'] });
  for (const at of [2, 3, 4, 5]) t.match(upstream.heard[at]!.text, /The text of a\.example\./, `request ${at}`);
});

t.test('a turn that continues an assistant message stays one turn', async (t) => {
  script = [
    (response) =>
      chunks(
        response,
        { choices: [{ index: 0, delta: { content: ' let me look.' } }] },
        {
          choices: [
            {
              index: 0,
              delta: {
                tool_calls: [{ index: 0, id: 'c', function: { name: 'web_search', arguments: '{"query":"x"}' } }],
              },
              finish_reason: 'tool_calls',
            },
          ],
        },
        '[DONE]',
      ),
    says('300 m'),
  ];
  await messages(ask({ messages: [...ask()['messages'], { role: 'assistant', content: 'Well,' }] }));
  t.same(
    sentMessages(1).map(({ role, content }) => `${role}: ${String(content).slice(0, 19)}`),
    ['user: How tall is it?', 'assistant: Well, let me look.', 'tool: 1. About a.example\n'],
  );
});

t.test('a trace has the spans of every round and search', async (t) => {
  const receiver = await startOtlpReceiver();
  const traced = await startGateway(
    { chat: { upstream: { url: upstream.url } } },
    {
      tools: { web_search: { url: search.url } },
      telemetry: { traces: { endpoint: `${receiver.url}/v1/traces` } },
    },
  );
  t.teardown(async () => {
    await traced.close();
    await receiver.close();
  });
  script = [searches('secret words'), says('Done')];
  t.equal((await traced.post('/v1/messages', ask())).status, 200);
  const names = (): string[] => receiver.spans.map(({ name }) => name).sort();
  t.ok(await eventually(() => names().filter((name) => name === 'decode').length === 2));
  for (const [name, count] of [
    ['web search', 1],
    ['queue', 2],
    ['prefill', 2],
  ] as const)
    t.equal(names().filter((one) => one === name).length, count, name);
  t.notMatch(JSON.stringify(receiver.spans), /secret words/);
});

t.test('the limit on output tokens applies to the whole turn', async (t) => {
  script = [searches('one'), says('Done')];
  const answer = await messages(ask({ max_tokens: 5 }));
  t.equal(answer['stop_reason'], 'max_tokens');
  t.equal(upstream.heard.length, 1, 'the five tokens of the call are all there are');
  t.same(types(answer['content']), ['server_tool_use', 'web_search_tool_result', 'text']);
  script = [searches('one'), says('Done')];
  await messages(ask({ max_tokens: 30 }));
  t.equal(upstream.heard[2]!.body['max_tokens'] ?? upstream.heard[2]!.body['max_completion_tokens'], 25);
});

t.test('a client that disconnects ends its search, and frees its concurrency slot', async (t) => {
  let searching: () => void = () => undefined;
  const began = new Promise<void>((resolve) => {
    searching = resolve;
  });
  search.answer = () => searching();
  const before = search.left;
  script = [searches('endless'), says('Never')];
  const controller = new AbortController();
  const request = patient.post('/v1/messages', ask({ stream: true }), { signal: controller.signal });
  await began;
  const response = await request;
  controller.abort();
  await response.text().catch(() => undefined);
  t.ok(await eventually(() => search.left > before, 5_000), 'the search was aborted before its timeout');
  search.answer = results(page('a.example'));
  t.notOk(upstream.heard[1]?.text.includes('endless'), 'the turn was not continued');
  script = [says('Done')];
  const next = async (): Promise<number> => (await patient.post('/v1/messages', ask())).status;
  t.ok(await eventually(async () => (await next()) === 200, 5_000), 'the slot is free');
});

t.test('a failure of the upstream after a search ends the stream with an error', async (t) => {
  const broken: Say = (response) => void response.writeHead(400, { 'content-type': 'application/json' }).end('{}');
  script = [searches('one'), broken];
  const response = await gateway.post('/v1/messages', ask({ stream: true }));
  const text = await response.text();
  t.match(text, /web_search_tool_result/);
  t.match(text, /event: error\n/);
  t.notMatch(text, /message_stop/);
});

t.test('upstreams in the messages format get their own thinking back with the results', async (t) => {
  const thinking = { type: 'thinking', thinking: 'Search.', signature: 'c2lnbmVk' };
  const call = { type: 'tool_use', id: 'toolu_1', name: 'web_search', input: { query: 'tall tower' } };
  const message =
    (content: object[], stop_reason: string): Say =>
    (response) =>
      json(
        response,
        JSON.stringify({
          type: 'message',
          role: 'assistant',
          content,
          stop_reason,
          usage: { input_tokens: 10, output_tokens: 5 },
        }),
      );
  script = [message([thinking, call], 'tool_use'), message([{ type: 'text', text: '300 m' }], 'end_turn')];
  const answer = await messages(
    ask({ model: 'claude', max_tokens: 4_000, thinking: { type: 'enabled', budget_tokens: 1_024 } }),
  );
  t.same(types(answer['content']), ['thinking', 'server_tool_use', 'web_search_tool_result', 'text']);
  const [, assistant, user] = sentMessages(1);
  t.match(assistant, { role: 'assistant', content: [thinking, { type: 'tool_use', name: 'web_search' }] });
  t.match(user, { role: 'user', content: [{ type: 'tool_result' }] });
  t.match(upstream.heard[1]!.body['thinking'], { type: 'enabled' });
});

t.test('upstreams in the responses format get their own reasoning back with the results', async (t) => {
  const reasoning = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'c2VhbGVk' };
  const call = {
    type: 'function_call',
    id: 'fc_1',
    call_id: 'call_1',
    name: 'web_search',
    arguments: '{"query":"tall tower"}',
    status: 'completed',
  };
  const message = { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: '300 m' }] };
  const response =
    (...output: object[]): Say =>
    (to) =>
      json(to, JSON.stringify({ status: 'completed', output, usage: { input_tokens: 10, output_tokens: 5 } }));
  script = [response(reasoning, call), response(message)];
  const answer = (await (
    await gateway.post('/v1/responses', { model: 'openai', input: 'How tall?', tools: [{ type: 'web_search' }] })
  ).json()) as Json;
  t.same(types(answer['output']), ['reasoning', 'web_search_call', 'message']);
  t.match(upstream.heard[1]!.body['input'], [
    { role: 'user' },
    reasoning,
    { type: 'function_call', name: 'web_search' },
    { type: 'function_call_output' },
  ]);
});

t.test('metrics count searches by outcome, and the log has no query and no result', async (t) => {
  script = [searches('secret words'), says('Done')];
  await messages(ask());
  const metrics = await (await gateway.get('/metrics')).text();
  t.match(metrics, /monolith_web_searches_total\{outcome="completed"\} [1-9]/);
  t.match(metrics, /monolith_web_searches_total\{outcome="unavailable"\} [1-9]/);
  t.match(metrics, /monolith_web_searches_total\{outcome="too_many_requests"\} 1/);
  t.match(metrics, /monolith_web_search_seconds_count\{outcome="completed"\} [1-9]/);
  const log = gateway.logs.join('\n');
  t.match(log, /web search failed/);
  t.match(log, /"web_searches":1/);
  t.notMatch(log, /secret words|The text of/);
});

t.test('what a search service sends is not logged, even if it is not HTTP', async (t) => {
  const errors: unknown[] = [];
  const settings = { url: search.url, results: 3, timeout_ms: 5_000 };
  const service = new SearchService(
    settings,
    () => undefined,
    (error) => errors.push(error),
  );
  search.answer = (response) => response.socket!.end('HTTP/1.1 200 OK\r\nno header: but private text\r\n\r\n');
  const found = await service.search('x', { allowedDomains: null, blockedDomains: [] }, new AbortController().signal);
  t.same(found, { error: 'unavailable' });
  t.equal(errors.length, 1);
  t.notMatch(Buffer.from(inspect(errors[0], { depth: 9 })), /private/);
  t.notOk(Object.keys(errors[0] as Error).includes('rawPacket'));
});
