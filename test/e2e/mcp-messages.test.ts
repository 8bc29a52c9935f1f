// Tests MCP servers in the Messages API through the official client, with real MCP servers in this process and a model
// that writes scripted output.
import Anthropic from '@anthropic-ai/sdk';
import t from 'tap';
import { message as messageSchema } from '../../src/protocol/openapi/answers/messages.js';
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
  L: call('srv__echo', { text: 'L: again' }),
  F: call('srv__fail', {}),
  H: call('srv__hang', {}),
  T: ['It is', ' in the', ' result', '!'],
};
const mcp = await startMcpServer();
const server = await startScripted({
  scripts,
  env: { MONOLITH_MCP_ALLOWED_HOSTS: '127.0.0.1', MONOLITH_MCP_PUBLIC_ONLY: 'false' },
});
t.teardown(async () => {
  await server.stop();
  await mcp.close();
});
t.beforeEach(() => {
  mcp.calls.length = 0;
  mcp.methods.length = 0;
  mcp.intercept = null;
});

const anthropic = new Anthropic({ baseURL: server.url, apiKey: server.key, maxRetries: 0 });
type Params = Anthropic.Beta.Messages.MessageCreateParamsNonStreaming;
type Message = Anthropic.Beta.Messages.BetaMessage;
const model = 'tycho-1.0';
const TOKEN = 'oauth-secret-token-0123456789';
const srv = { type: 'url' as const, name: 'srv', url: mcp.url, authorization_token: TOKEN };
const request = (content: string, more: Partial<Params> = {}): Params => ({
  model,
  max_tokens: 1_000,
  messages: [{ role: 'user', content }],
  mcp_servers: [srv],
  betas: ['mcp-client-2025-04-04'],
  ...more,
});
const create = (content: string, more: Partial<Params> = {}): Promise<Message> =>
  anthropic.beta.messages.create(request(content, more));
const types = (list: readonly { type: string }[]): string[] => list.map(({ type }) => type);
/** Offers one tool, so that the model calls it. */
const only = (name: string): Partial<Params> => ({
  mcp_servers: [{ ...srv, tool_configuration: { allowed_tools: [name] } }],
});

t.test('runs a call and continues the turn', async (t) => {
  const message = await create('E: How warm is it?');
  t.equal(messageSchema.safeParse(message).error, undefined, 'it matches the published schema');
  t.same(types(message.content), ['text', 'mcp_tool_use', 'mcp_tool_result', 'text']);
  const [, use, result, last] = message.content;
  t.match(use, { id: /^mcptoolu_/, name: 'echo', server_name: 'srv', input: { text: 'T: it is 14 C' } });
  t.same(result, {
    type: 'mcp_tool_result',
    tool_use_id: (use as { id: string }).id,
    is_error: false,
    content: [{ type: 'text', text: 'T: it is 14 C' }],
  });
  t.match(last, { text: 'It is in the result!' });
  t.equal(message.stop_reason, 'end_turn');
  t.ok(mcp.authorizations.at(-1) === `Bearer ${TOKEN}` && mcp.calls.length === 1);

  const stream = anthropic.beta.messages.stream(request('E: How warm is it?'));
  const seen: string[] = [];
  for await (const event of stream) if (event.type === 'content_block_start') seen.push(event.content_block.type);
  t.same(seen, types(message.content));
  const streamed = await stream.finalMessage();
  t.match(streamed.content[1], { input: { text: 'T: it is 14 C' } });
  t.equal(streamed.usage.output_tokens, message.usage.output_tokens);

  const history: Params['messages'] = [
    { role: 'user', content: 'E: How warm is it?' },
    { role: 'assistant', content: message.content as Anthropic.Beta.Messages.BetaContentBlockParam[] },
    { role: 'user', content: 'A: Thanks.' },
  ];
  const next = await create('', { messages: history });
  t.match(next.content, [{ type: 'text', text: 'A plain answer.' }]);
  t.equal(mcp.calls.length, 2, 'a call in the history is not repeated');
});

t.test('a failed call is an error result', async (t) => {
  const message = await create('F: x', only('fail'));
  t.match(message.content, [
    { type: 'mcp_tool_use' },
    { is_error: true, content: [{ text: 'The tool call failed. T: the disk is full' }] },
    { text: 'It is in the result!' },
  ]);
});

t.test('a server that cannot list its tools is left out, and the model answers', async (t) => {
  mcp.intercept = (_request, response) => {
    response.writeHead(503).end();
    return true;
  };
  t.match((await create('A: x')).content, [{ type: 'text', text: 'A plain answer.' }]);
});

t.test('an answer makes at most 16 calls, and max_tokens spans all rounds', async (t) => {
  const { content } = await create('L: x', { max_tokens: 4_000 });
  t.equal(mcp.calls.length, 16);
  t.match(content.at(-2), { type: 'mcp_tool_result', is_error: true });
  const whole = await create('E: x');
  const cut = await create('E: x', { max_tokens: whole.usage.output_tokens - 2 });
  t.equal(cut.stop_reason, 'max_tokens');
  t.equal(cut.usage.output_tokens, whole.usage.output_tokens - 2);
});

t.test('toolsets select tools, and pinned or earlier listings are used', async (t) => {
  const later = { betas: ['mcp-client-2026-09-15'] };
  const toolset = (more: object): Partial<Params> => ({
    ...later,
    tools: [{ type: 'mcp_toolset', mcp_server_name: 'srv', ...more }],
  });
  const listed = async (more: object): Promise<string[]> => {
    const [block] = (await create('A: x', toolset(more))).content;
    return (block as Anthropic.Beta.Messages.BetaMCPToolListingBlock).tools.map(({ name }) => name);
  };
  t.same(await listed({ default_config: { enabled: false }, configs: { fail: { enabled: true } } }), ['fail']);
  t.notOk((await listed({ configs: { echo: { enabled: false } } })).includes('echo'));

  const first = await create('A: x', toolset({}));
  t.equal(messageSchema.safeParse(first).error, undefined, 'it matches the published schema');
  const [listing] = first.content as [Anthropic.Beta.Messages.BetaMCPToolListingBlock];
  t.match(listing, { type: 'mcp_tool_listing', mcp_server_name: 'srv', tools: [{ name: 'echo' }] });
  mcp.methods.length = 0;
  const content = first.content as Anthropic.Beta.Messages.BetaContentBlockParam[];
  const messages: Params['messages'] = [
    { role: 'user', content: 'A: x' },
    { role: 'assistant', content },
    { role: 'user', content: 'E: x' },
  ];
  const next = await create('', { ...toolset({}), messages });
  t.same(types(next.content), ['text', 'mcp_tool_use', 'mcp_tool_result', 'text']);
  await create('E: x', toolset({ tools: listing.tools }));
  t.notOk(mcp.methods.includes('tools/list'), 'the server is not asked for its tools');

  const stream = anthropic.beta.messages.stream({ ...request('A: x', toolset({})) });
  const seen: string[] = [];
  for await (const event of stream)
    seen.push(event.type === 'content_block_start' ? event.content_block.type : event.type);
  t.same(
    seen.filter((type) => /^(message_start|mcp|text)/.test(type)),
    ['message_start', 'mcp_tool_listing', 'text'],
  );
});

t.test('refuses servers by name', async (t) => {
  const headers = { 'anthropic-beta': 'mcp-client-2025-11-20' };
  const refused = async (body: object, sent = headers): Promise<unknown> => {
    const { betas: _, ...rest } = request('A: x');
    return ask(server, '/v1/messages', { ...rest, ...body }, sent as Record<string, string>);
  };
  t.match(await refused({ mcp_servers: [{ ...srv, url: 'https://evil.example/' }] }), {
    status: 422,
    body: { error: { message: /^mcp_servers\[0\]\.url: the host evil\.example is not in mcp\.allowed_hosts/ } },
  });
  const many = Array.from({ length: 9 }, (_, at) => ({ ...srv, name: `s${at}` }));
  t.match(await refused({ mcp_servers: many }), { status: 422, body: { error: { message: /at most 8 MCP servers/ } } });
  t.match(await refused({ tools: [{ type: 'mcp_toolset', mcp_server_name: 'x' }] }), {
    status: 422,
    body: { error: { message: /mcp_server_name does not name a server/ } },
  });
  const listed = { name: 'echo', input_schema: { type: 'object' } };
  const pinned = { type: 'mcp_toolset', mcp_server_name: 'srv', tools: [listed] };
  t.match(await refused({ tools: [pinned], tool_choice: { type: 'tool', name: 'nothing' } }), {
    status: 422,
    body: { error: { message: /names a tool that is not in tools/ } },
  });
  const more = Array.from({ length: 129 }, (_, at) => ({ ...listed, name: `t${at}` }));
  t.match(await refused({ tools: [{ ...pinned, tools: more }] }), {
    status: 422,
    body: { error: { message: /^mcp_servers\[0\]: The server offers 129 tools/ } },
  });
  t.match(await refused({}, {} as never), {
    status: 422,
    body: { error: { message: /requires the header anthropic-beta/ } },
  });
});

t.test('a client that disconnects stops the call', async (t) => {
  const leaving = new AbortController();
  const before = mcp.cancelled;
  const response = anthropic.beta.messages.create(request('H: x', only('hang')), { signal: leaving.signal });
  response.catch(() => undefined);
  t.ok(await eventually(() => mcp.calls.length === 1), 'the call has started');
  leaving.abort();
  await t.rejects(response);
  t.ok(await eventually(() => mcp.cancelled === before + 1), 'the call is cancelled');
});

t.test('without the setting, servers and toolsets are ignored and named', async (t) => {
  const plain = await startScripted({ scripts });
  t.teardown(() => plain.stop());
  const { betas: _, ...body } = request('A: x', { tools: [{ type: 'mcp_toolset', mcp_server_name: 'srv' }] });
  const response = await ask(plain, '/v1/messages', body);
  t.equal(response.headers.get('x-ignored-tools'), 'mcp_toolset,mcp_servers');
  t.match(response.body, { content: [{ type: 'text', text: 'A plain answer.' }] });
});
