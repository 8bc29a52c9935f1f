// Tests MCP servers in the Responses API through the official client, with real MCP servers in this process and a model
// that writes scripted output.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import t from 'tap';
import { response as responseSchema, responseEvent } from '../../src/protocol/openapi/answers/responses.js';
import { startMcpServer } from '../support/mcp-server.js';
import { startScripted, type Script } from '../support/script-model.js';
import { ask } from '../support/wire.js';
import { eventually } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const call = (name: string, given: object): Script => [
  '<tool_call>',
  `\n{"name": "${name.slice(0, 7)}`,
  `${name.slice(7)}", "arguments": ${JSON.stringify(given)}`,
  '}\n',
  '</tool_call>',
];
const scripts: Readonly<Record<string, Script>> = {
  A: ['A plain', ' answer', '.'],
  E: ['Let me', ' see. ', ...call('srv__echo', { text: 'T: it is 14 C' })],
  L: call('srv__echo', { text: 'L: again' }), // calls again after each result
  F: call('srv__fail', {}),
  H: call('srv__hang', {}),
  B: call('srv__large', { bytes: 2 * 1024 * 1024 }),
  I: call('srv__image', {}),
  U: [...call('srv__echo', { text: 'T: mixed' }), '\n ', ...call('get_time', { zone: 'CET' })],
  T: ['It is', ' in the', ' result', '!'],
};

const mcp = await startMcpServer();
const other = await startMcpServer({ more: 130 });
const env = { MONOLITH_MCP_ALLOWED_HOSTS: '127.0.0.1', MONOLITH_MCP_PUBLIC_ONLY: 'false' };
const data = mkdtempSync(join(tmpdir(), 'monolith-mcp-'));
const server = await startScripted({ scripts, env: { ...env, MONOLITH_DATA_DIR: data } });
t.teardown(async () => {
  await server.stop();
  await Promise.all([mcp.close(), other.close()]);
  rmSync(data, { recursive: true, force: true });
});
t.beforeEach(() => {
  mcp.calls.length = 0;
  mcp.methods.length = 0;
  mcp.intercept = null;
});

const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
const model = 'tycho-1.0';
type Response = OpenAI.Responses.Response;
type Params = OpenAI.Responses.ResponseCreateParamsNonStreaming;
const SECRET = 'oauth-secret-token-0123456789';
const tool = (more: Partial<OpenAI.Responses.Tool.Mcp> = {}): OpenAI.Responses.Tool.Mcp => ({
  type: 'mcp',
  server_label: 'srv',
  server_url: mcp.url,
  require_approval: 'never',
  ...more,
});
/** Offers one tool, so that the model calls it. */
const only = (name: string): OpenAI.Responses.Tool.Mcp[] => [tool({ allowed_tools: [name] })];
const create = (input: NonNullable<Params['input']>, more: Partial<Params> = {}): Promise<Response> =>
  openai.responses.create({ model, input, tools: [tool()], reasoning: { effort: 'none' }, ...more });
const types = (list: readonly { type: string }[]): string[] => list.map(({ type }) => type);
const published = ({ output_text: _text, ...response }: Response): unknown => responseSchema.safeParse(response).error;

t.test('lists tools, runs a call and continues the response', async (t) => {
  const response = await create('E: How warm is it?', { tools: [tool({ authorization: SECRET })] });
  t.equal(published(response), undefined, 'it matches the published schema');
  t.same(types(response.output), ['mcp_list_tools', 'message', 'mcp_call', 'message']);
  const [list, , made, last] = response.output;
  t.match(list, { id: /^mcpl_/, server_label: 'srv', tools: [{ name: 'echo', description: 'Repeats a text.' }] });
  t.match(list, { tools: [{ input_schema: { properties: { text: {} } }, annotations: { readOnlyHint: true } }] });
  t.match(made, {
    id: /^mcp_/,
    status: 'completed',
    server_label: 'srv',
    name: 'echo',
    arguments: '{"text":"T: it is 14 C"}',
    output: 'T: it is 14 C',
    error: null,
    approval_request_id: null,
  });
  t.match(last, { content: [{ text: 'It is in the result!' }] });
  t.equal(response.status, 'completed');
  t.same(mcp.calls, [['echo', { text: 'T: it is 14 C' }]]);
  t.ok(mcp.authorizations.slice(-3).every((value) => value === `Bearer ${SECRET}`));
  t.match(response.tools, [
    { type: 'mcp', server_label: 'srv', server_url: /^http:\/\/127\.0\.0\.1:\d+\/…$/, require_approval: 'never' },
  ]);
});

t.test('the usage has the tokens of all rounds, and the prefix cache serves the later ones', async (t) => {
  const one = await create('A: Hello.', { store: false });
  const two = await create('E: How warm is it?', { store: false });
  const { input_tokens: input, input_tokens_details: details } = two.usage!;
  t.ok(input > 2 * one.usage!.input_tokens, `${input} tokens are those of two prompts`);
  t.ok(details.cached_tokens >= one.usage!.input_tokens - 128, `${details.cached_tokens} tokens came from the cache`);
  const plain = await create('T: x', { store: false });
  t.ok(two.usage!.output_tokens > plain.usage!.output_tokens + 10);
});

t.test('streams the events of listings and calls', async (t) => {
  const events: OpenAI.Responses.ResponseStreamEvent[] = [];
  const request = { model, input: 'E: How warm is it?', tools: [tool()], reasoning: { effort: 'none' } } as const;
  for await (const event of await openai.responses.create({ ...request, tools: [tool()], stream: true }))
    events.push(event);
  for (const event of events) t.equal(responseEvent.safeParse(event).error, undefined, event.type);
  const start = events.findIndex(({ type }) => type === 'response.mcp_list_tools.in_progress');
  t.same(types(events.slice(start - 1, start + 3)), [
    'response.output_item.added',
    'response.mcp_list_tools.in_progress',
    'response.mcp_list_tools.completed',
    'response.output_item.done',
  ]);
  const at = events.findIndex(({ type }) => type === 'response.mcp_call.in_progress');
  t.same(types(events.slice(at - 1, at + 5)), [
    'response.output_item.added',
    'response.mcp_call.in_progress',
    'response.mcp_call_arguments.delta',
    'response.mcp_call_arguments.done',
    'response.mcp_call.completed',
    'response.output_item.done',
  ]);
  t.same(
    events.map(({ sequence_number }) => sequence_number),
    events.map((_, index) => index),
  );
  const last = events.at(-1) as OpenAI.Responses.ResponseCompletedEvent;
  t.equal(last.type, 'response.completed');
  const replayed: string[] = [];
  for await (const { type } of await openai.responses.retrieve(last.response.id, { stream: true })) replayed.push(type);
  const ofMcp = (names: string[]): string[] => names.filter((name) => name.includes('mcp'));
  t.same(ofMcp(replayed), ofMcp(types(events)), 'the stored response replays them');
});

t.test('a failed call is shown with its error, and the model continues', async (t) => {
  const response = await create('F: Save it.', { tools: only('fail') });
  t.match(response.output[1], {
    type: 'mcp_call',
    status: 'failed',
    output: null,
    error: { type: 'mcp_tool_execution_error', content: [{ type: 'text', text: 'T: the disk is full' }] },
  });
  t.equal(response.output_text, 'It is in the result!');
  t.equal(response.status, 'completed');
  t.equal(published(response), undefined);
});

t.test('a result over 1 MiB is refused by name', async (t) => {
  const response = await create('B: All of it.', { tools: only('large') });
  t.match(response.output[1], {
    status: 'failed',
    error: { type: 'mcp_protocol_error', message: "The server's response is larger than 1048576 bytes." },
  });
  t.equal(response.output_text, 'It is in the result!');
});

t.test('an image is named in the result', async (t) => {
  const response = await create('I: Draw.', { tools: only('image') });
  t.match(response.output[1], { output: 'T: a pixel\n[image of type image/png, 70 bytes, not shown]' });
});

t.test('a server that cannot list its tools is left out, and the model answers', async (t) => {
  mcp.intercept = (_request, response) => {
    response.writeHead(503).end('maintenance');
    return true;
  };
  const response = await create('A: Hello.');
  t.match(response.output[0], { type: 'mcp_list_tools', tools: [], error: /^HTTP status 503: .*maintenance/ });
  t.equal(response.output_text, 'A plain answer.');
  t.equal(published(response), undefined);
});

t.test('a call needs approval by default', async (t) => {
  const tools = [tool({ require_approval: undefined as never })];
  const first = await create('E: How warm is it?', { tools });
  t.same(types(first.output), ['mcp_list_tools', 'message', 'mcp_approval_request']);
  const request = first.output[2] as OpenAI.Responses.ResponseOutputItem.McpApprovalRequest;
  t.match(request, { id: /^mcpr_/, server_label: 'srv', name: 'echo', arguments: '{"text":"T: it is 14 C"}' });
  t.same(mcp.calls, [], 'nothing is called yet');
  t.equal(first.status, 'completed');
  t.equal(published(first), undefined);

  const approval = { type: 'mcp_approval_response' as const, approval_request_id: request.id, approve: true };
  mcp.methods.length = 0;
  const next = await create([approval], { tools, previous_response_id: first.id });
  t.same(types(next.output), ['mcp_call', 'message']);
  t.match(next.output[0], { approval_request_id: request.id, output: 'T: it is 14 C', status: 'completed' });
  t.equal(next.output_text, 'It is in the result!');
  t.equal(mcp.calls.length, 1);
  t.notOk(mcp.methods.includes('tools/list'), 'the list of tools is taken from the conversation');

  const last = await create('A: Thanks.', { tools, previous_response_id: next.id });
  t.equal(mcp.calls.length, 1, 'an approved call runs once');
  t.equal(last.output_text, 'A plain answer.');

  const refused = await create([{ ...approval, approve: false, reason: 'T: too risky' }], {
    tools,
    previous_response_id: first.id,
  });
  t.same(types(refused.output), ['message']);
  t.equal(mcp.calls.length, 1);
});

t.test('approval works for stateless clients, and a whole history has the same prompt', async (t) => {
  const tools = [tool({ require_approval: 'always' })];
  const question = { role: 'user' as const, content: 'E: How warm is it?' };
  const first = await create([question], { tools, store: false });
  const request = first.output[2] as OpenAI.Responses.ResponseOutputItem.McpApprovalRequest;
  const approval = { type: 'mcp_approval_response' as const, approval_request_id: request.id, approve: true };
  const history = [question, ...first.output, approval] as OpenAI.Responses.ResponseInputItem[];
  const second = await create(history, { tools, store: false });
  t.same(types(second.output), ['mcp_call', 'message']);
  t.equal(mcp.calls.length, 1);
  const thanks = { role: 'user' as const, content: 'A: Thanks.' };
  const whole = [...history, ...second.output, thanks] as OpenAI.Responses.ResponseInputItem[];
  const third = await create(whole, { tools, store: false });
  t.equal(mcp.calls.length, 1, 'a call that the history contains is not repeated');
  t.equal(third.output_text, 'A plain answer.');

  const stored = await create([question], { tools });
  const { id } = stored.output[2] as { id: string };
  const chained = await create([{ ...approval, approval_request_id: id }], { tools, previous_response_id: stored.id });
  const end = await create([thanks], { tools, previous_response_id: chained.id });
  t.equal(end.usage!.input_tokens, third.usage!.input_tokens, 'both have the same prompt');
});

t.test('approval filters: names and read-only tools', async (t) => {
  const never = (filter: object): OpenAI.Responses.Tool.Mcp[] => [tool({ require_approval: { never: filter } })];
  t.same(types((await create('E: x', { tools: never({ tool_names: ['echo'] }) })).output), [
    'mcp_list_tools',
    'message',
    'mcp_call',
    'message',
  ]);
  t.same(types((await create('F: x', { tools: never({ tool_names: ['echo'] }) })).output), [
    'mcp_list_tools',
    'mcp_approval_request',
  ]);
  t.ok(types((await create('E: x', { tools: never({ read_only: true }) })).output).includes('mcp_call'));
  t.ok(types((await create('F: x', { tools: never({ read_only: true }) })).output).includes('mcp_approval_request'));
  const always = [
    tool({ require_approval: { always: { tool_names: ['echo'] }, never: { tool_names: ['echo', 'fail'] } } }),
  ];
  t.ok(types((await create('E: x', { tools: always })).output).includes('mcp_approval_request'));
  t.ok(types((await create('F: x', { tools: always })).output).includes('mcp_call'));
});

t.test('allowed_tools selects tools by name or annotation', async (t) => {
  const names = async (allowed: OpenAI.Responses.Tool.Mcp['allowed_tools']): Promise<string[]> => {
    const { output } = await create('A: x', { tools: [tool({ allowed_tools: allowed ?? null })] });
    return (output[0] as OpenAI.Responses.ResponseOutputItem.McpListTools).tools.map(({ name }) => name);
  };
  t.same(await names(['fail', 'echo']), ['echo', 'fail']);
  t.same(await names({ read_only: true }), ['echo']);
  t.same(await names({ tool_names: ['fail'], read_only: false }), ['fail']);
});

t.test('calls of functions go to the client, MCP calls are run', async (t) => {
  const clock = { type: 'function' as const, name: 'get_time', parameters: {}, strict: false };
  const first = await create('U: Both.', { tools: [tool(), clock] });
  t.same(types(first.output), ['mcp_list_tools', 'mcp_call', 'function_call']);
  t.match(first.output[1], { output: 'T: mixed' });
  const { call_id } = first.output[2] as { call_id: string };
  const output = { type: 'function_call_output' as const, call_id, output: 'T: noon' };
  const next = await create([output], { tools: [tool(), clock], previous_response_id: first.id });
  t.equal(next.output_text, 'It is in the result!');
  t.equal(mcp.calls.length, 1);
});

t.test('tool_choice names a server or one of its tools', async (t) => {
  const named = { type: 'mcp' as const, server_label: 'srv', name: 'fail' };
  const one = await create('A: x', { tool_choice: named });
  t.match(one.output[1], { type: 'mcp_call', name: 'fail' });
  t.same(one.tool_choice, named);
  t.equal(published(one), undefined);
  const allowed = {
    type: 'allowed_tools' as const,
    mode: 'required' as const,
    tools: [{ type: 'mcp', server_label: 'srv', name: 'fail' }],
  };
  t.match((await create('A: x', { tool_choice: allowed })).output[1], { name: 'fail' });
  t.same(types((await create('E: x', { tool_choice: 'none' })).output), ['mcp_list_tools', 'message']);
  const unknown = { model, input: 'A: x', tools: [tool()], tool_choice: { ...named, server_label: 'x' } };
  t.match(await ask(server, '/v1/responses', unknown), { status: 422, body: { error: { code: 'tool_not_found' } } });
  const missing = { model, input: 'A: x', tools: [tool()], tool_choice: { ...named, name: 'x' } };
  t.match(await ask(server, '/v1/responses', missing), {
    status: 422,
    body: { error: { code: 'tool_not_found', param: 'tool_choice', message: /srv does not offer/ } },
  });
});

t.test('a response makes at most 16 calls', async (t) => {
  const { output, status } = await create('L: x');
  const calls = output.filter(({ type }) => type === 'mcp_call') as OpenAI.Responses.ResponseOutputItem.McpCall[];
  t.equal(mcp.calls.length, 16);
  t.equal(calls.length, 17, 'the last one is refused');
  t.match(calls.at(-1)?.error, { message: /^The maximum of 16 tool calls per response is reached/ });
  t.equal(status, 'completed');
  mcp.calls.length = 0;
  const fewer = await create('L: x', { max_tool_calls: 3 } as object);
  t.equal(mcp.calls.length, 3);
  t.match((fewer.output.at(-2) as OpenAI.Responses.ResponseOutputItem.McpCall).error, { message: /maximum of 3 / });
});

t.test('max_output_tokens spans all rounds', async (t) => {
  const whole = await create('E: x');
  const most = whole.usage!.output_tokens - 2;
  const cut = await create('E: x', { max_output_tokens: most });
  t.equal(cut.status, 'incomplete');
  t.equal(cut.usage!.output_tokens, most);
});

t.test('at most 8 servers and 128 tools', async (t) => {
  const many = Array.from({ length: 9 }, (_, at) => tool({ server_label: `s${at}` }));
  t.match(await ask(server, '/v1/responses', { model, input: 'A: x', tools: many }), {
    status: 422,
    body: { error: { code: 'array_too_long', param: 'tools[8]', message: /at most 8 MCP servers/ } },
  });
  const twice = await ask(server, '/v1/responses', { model, input: 'A: x', tools: [tool(), tool()] });
  t.match(twice, { status: 422, body: { error: { code: 'duplicate_tool_name', param: 'tools[1]' } } });
  const eight = many.slice(0, 8).map((one) => ({ ...one, allowed_tools: ['echo'] }));
  t.equal(types((await create('A: x', { tools: eight })).output).filter((type) => type === 'mcp_list_tools').length, 8);

  const [list] = (await create('A: x', { tools: [tool({ server_url: other.url })] })).output;
  t.match(list, { tools: [], error: /^The server offers 137 tools, but only 128 of the maximum of 128/ });
  const allowed_tools = Array.from({ length: 127 }, (_, at) => `more_${at}`);
  const two = await create('A: x', {
    tools: [
      tool({ server_url: other.url, allowed_tools }),
      tool({ server_label: 'b', allowed_tools: ['echo', 'fail'] }),
    ],
  });
  t.match(two.output, [{ tools: { length: 127 } }, { error: /only 1 of the maximum of 128/ }]);
});

t.test('refuses hosts that are not allowed, and unsupported fields, by name', async (t) => {
  const refused = async (more: object): Promise<unknown> =>
    ask(server, '/v1/responses', { model, input: 'A: x', tools: [{ ...tool(), ...more }] });
  t.match(await refused({ server_url: 'https://evil.example/mcp' }), {
    status: 422,
    body: {
      error: {
        code: 'mcp_server_not_allowed',
        param: 'tools[0].server_url',
        message: 'tools[0].server_url: the host evil.example is not in mcp.allowed_hosts.',
      },
    },
  });
  for (const name of ['connector_id', 'tunnel_id'])
    t.match(await refused({ server_url: undefined, [name]: 'connector_gmail' }), {
      status: 422,
      body: { error: { code: 'unsupported_feature', param: `tools[0].${name}` } },
    });
  t.match(await refused({ server_url: null }), { status: 400, body: { error: { param: 'tools[0].server_url' } } });
  t.match(await refused({ server_label: 'a b' }), { status: 422, body: { error: { param: 'tools[0].server_label' } } });
  t.match(await refused({ headers: { Host: 'x' } }), { status: 422, body: { error: { param: 'tools[0].headers' } } });
  const long = Object.fromEntries(['a', 'b', 'c'].map((name) => [name, 'x'.repeat(6_000)]));
  t.match(await refused({ headers: long }), { status: 422, body: { error: { code: 'string_too_long' } } });
  t.match(await refused({ authorization: 'a', headers: { authorization: 'b' } }), {
    status: 422,
    body: { error: { code: 'conflicting_parameters' } },
  });
  const user = await refused({ server_url: `http://me:secret-word@127.0.0.1/` });
  t.match(user, { status: 422, body: { error: { code: 'mcp_server_not_allowed' } } });
  t.notMatch(JSON.stringify(user), /secret-word/);
  const unknown = { type: 'mcp_approval_response', approval_request_id: 'mcpr_x', approve: true };
  t.match(await ask(server, '/v1/responses', { model, input: [unknown], tools: [tool()] }), {
    status: 422,
    body: { error: { code: 'tool_call_not_found', param: 'input[0].approval_request_id' } },
  });
});

t.test('a client that disconnects stops the call', async (t) => {
  const leaving = new AbortController();
  const before = mcp.cancelled;
  const request = { model, input: 'H: x', tools: only('hang'), reasoning: { effort: 'none' as const } };
  const response = openai.responses.create(request, { signal: leaving.signal });
  response.catch(() => undefined);
  t.ok(await eventually(() => mcp.calls.length === 1), 'the call has started');
  leaving.abort();
  await t.rejects(response);
  t.ok(await eventually(() => mcp.cancelled === before + 1), 'the call is cancelled');
});

t.test('a background response runs calls, and its cancellation stops them', async (t) => {
  let response = await create('E: x', { background: true });
  t.ok(
    await eventually(async () => (response = await openai.responses.retrieve(response.id)).status === 'completed'),
    'it ends',
  );
  t.same(types(response.output), ['mcp_list_tools', 'message', 'mcp_call', 'message']);

  mcp.calls.length = 0;
  const before = mcp.cancelled;
  const hanging = await create('H: x', { tools: only('hang'), background: true });
  t.ok(await eventually(() => mcp.calls.length === 1), 'the call has started');
  const cancelled = await openai.responses.cancel(hanging.id);
  t.equal(cancelled.status, 'cancelled');
  t.match(cancelled.output.at(-1), { type: 'mcp_call', status: 'incomplete' });
  t.ok(await eventually(() => mcp.cancelled === before + 1), 'the call is cancelled');
});

t.test('a conversation keeps the items', async (t) => {
  const conversation = await openai.conversations.create();
  const tools = [tool({ require_approval: 'always' })];
  const first = await create('E: x', { tools, conversation: conversation.id });
  const { id } = first.output[2] as { id: string };
  const approval = { type: 'mcp_approval_response' as const, approval_request_id: id, approve: true };
  const next = await create([approval], { tools, conversation: conversation.id });
  t.same(types(next.output), ['mcp_call', 'message']);
  const items: { type: string }[] = [];
  for await (const item of openai.conversations.items.list(conversation.id, { order: 'asc' }))
    items.push(item as { type: string });
  t.same(types(items), [
    'message',
    'mcp_list_tools',
    'message',
    'mcp_approval_request',
    'mcp_approval_response',
    'mcp_call',
    'message',
  ]);
});

t.test('secrets are neither stored nor logged', async (t) => {
  const made = await create('E: x', {
    tools: [
      tool({ authorization: SECRET, headers: { 'x-key': `${SECRET}-2` }, server_url: `${mcp.url}?key=${SECRET}-3` }),
    ],
  });
  t.ok(types(made.output).includes('mcp_call'));
  t.equal(mcp.headers['x-key'], `${SECRET}-2`);
  t.notMatch(JSON.stringify(made), SECRET);
  t.notMatch(JSON.stringify(await openai.responses.retrieve(made.id)), SECRET);
  t.notMatch(server.log(), SECRET);
  let bytes = 0;
  for (const file of files(data)) {
    const content = readFileSync(file);
    bytes += content.length;
    t.notOk(content.includes(SECRET), file);
  }
  t.ok(bytes > 10_000, 'the database was searched');
});

t.test('without the setting, MCP tools are ignored and named', async (t) => {
  const plain = await startScripted({ scripts });
  t.teardown(() => plain.stop());
  const response = await ask(plain, '/v1/responses', { model, input: 'A: x', tools: [tool()] });
  t.equal(response.headers.get('x-ignored-tools'), 'mcp');
  t.match(response.body, { status: 'completed', output: [{ type: 'message' }] });
});

t.test('Chat Completions has no MCP tools', async (t) => {
  const body = { model, messages: [{ role: 'user', content: 'A: x' }], tools: [tool()] };
  t.match(await ask(server, '/v1/chat/completions', body), {
    status: 422,
    body: { error: { code: 'unsupported_feature', param: 'tools[0].type', message: /Responses/ } },
  });
});

function* files(folder: string): Generator<string> {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    const found = statSync(path);
    if (found.isDirectory()) yield* files(path);
    else if (found.isFile()) yield path;
  }
}
