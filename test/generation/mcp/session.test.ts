// Tests the connection to an MCP server: transports, results, limits, failures, secrets and redirects, with real
// servers made with the official SDK.
import t, { type Test } from 'tap';
import { McpSession, type McpSettings, type SessionLimits } from '../../../src/generation/mcp/session.js';
import type { McpServer } from '../../../src/generation/mcp/types.js';
import { startMcpServer, type McpTestOptions, type McpTestServer } from '../../support/mcp-server.js';

t.setTimeout(120_000); // the machine may be busy

const SETTINGS: McpSettings = { allowed_hosts: ['127.0.0.1'], public_only: false };
const never = new AbortController().signal;

function serverOf(url: string, headers: Record<string, string> = {}): McpServer {
  return {
    label: 'test',
    url,
    headers,
    description: null,
    allowed: { names: null, readOnly: null },
    disabled: [],
    approval: 'never',
    listed: null,
    path: 'tools[0]',
  };
}

interface Opened {
  server: McpTestServer;
  session: McpSession;
}

async function open(
  t: Test,
  options: McpTestOptions = {},
  more: { headers?: Record<string, string>; limits?: Partial<SessionLimits>; settings?: Partial<McpSettings> } = {},
): Promise<Opened> {
  const server = await startMcpServer(options);
  const limits = { timeoutMs: 10_000, maxBytes: 1024 * 1024, ...more.limits };
  const session = new McpSession(serverOf(server.url, more.headers), { ...SETTINGS, ...more.settings }, limits);
  t.teardown(async () => {
    session.close();
    await server.close();
  });
  return { server, session };
}

for (const [name, options] of [
  ['event streams', {}],
  ['JSON', { json: true }],
  ['no session', { stateless: true }],
  ['the older transport', { sse: true }],
] as const) {
  t.test(`lists and calls tools of a server with ${name}`, async (t) => {
    const { server, session } = await open(t, options);
    const listing = await session.list(never);
    t.match(listing, {
      tools: [{ name: 'echo', description: 'Repeats a text.', annotations: { readOnlyHint: true } }],
    });
    t.match(listing, { tools: [{ inputSchema: { type: 'object', properties: { text: { type: 'string' } } } }] });
    t.same(await session.call('echo', { text: 'hi' }, never), { text: 'hi', error: null });
    t.same(await session.call('echo', { text: 'again' }, never), { text: 'again', error: null });
    t.same(server.calls, [
      ['echo', { text: 'hi' }],
      ['echo', { text: 'again' }],
    ]);
    if (!('stateless' in options) && !('sse' in options))
      t.equal(server.methods.filter((method) => method === 'initialize').length, 1, 'all calls use one connection');
  });
}

t.test('results that are not text', async (t) => {
  const { session } = await open(t);
  t.same(await session.call('image', {}, never), {
    text: 'T: a pixel\n[image of type image/png, 70 bytes, not shown]',
    error: null,
  });
  t.same(await session.call('structured', {}, never), { text: '{"degrees":14}', error: null });
});

t.test('a tool that fails, and a tool that does not exist', async (t) => {
  const { session } = await open(t);
  t.same(await session.call('fail', {}, never), {
    text: 'The tool call failed. T: the disk is full',
    error: { type: 'mcp_tool_execution_error', content: [{ type: 'text', text: 'T: the disk is full' }] },
  });
  t.match(await session.call('nothing', {}, never), { error: { content: [{ text: /nothing not found/ }] } });
});

t.test('a call fails after its time limit, and the next call works', async (t) => {
  const { session } = await open(t, {}, { limits: { timeoutMs: 500 } });
  const startedAt = performance.now();
  t.same((await session.call('hang', {}, never)).error, {
    type: 'mcp_protocol_error',
    code: -32001,
    message: 'The server did not respond within 0.5 s.',
  });
  t.ok(performance.now() - startedAt < 5_000);
  t.match(await session.call('echo', { text: 'hi' }, never), { text: 'hi' });
});

for (const json of [false, true]) {
  t.test(`a call receives at most its bytes (${json ? 'JSON' : 'event stream'})`, async (t) => {
    const { session } = await open(t, { json });
    t.same((await session.call('large', { bytes: 2 * 1024 * 1024 }, never)).error, {
      type: 'mcp_protocol_error',
      code: -32603,
      message: "The server's response is larger than 1048576 bytes.",
    });
    const fits = await session.call('large', { bytes: 900_000 }, never);
    t.equal(fits.text.length, 900_000, 'a large result below the limit arrives whole');
  });
}

t.test('a compressed response counts with its decompressed size', async (t) => {
  const { gzipSync } = await import('node:zlib');
  const { server, session } = await open(t, { json: true });
  await session.list(never);
  server.intercept = (request, response) => {
    if (request.method !== 'POST') return false;
    response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
    response.end(gzipSync(Buffer.alloc(8 * 1024 * 1024, 0x20)));
    return true;
  };
  t.match(await session.call('echo', { text: 'hi' }, never), { error: { message: /larger than 1048576 bytes/ } });
});

t.test('an aborted call ends immediately and is cancelled on the server', async (t) => {
  const { server, session } = await open(t);
  const leaving = new AbortController();
  const call = session.call('hang', {}, leaving.signal);
  while (server.calls.length === 0) await new Promise((done) => setTimeout(done, 10));
  leaving.abort();
  await call;
  for (let waited = 0; server.cancelled === 0 && waited < 500; waited++)
    await new Promise((done) => setTimeout(done, 10));
  t.equal(server.cancelled, 1);
});

t.test('an HTTP error is reported with its status', async (t) => {
  const { server, session } = await open(t);
  server.intercept = (_request, response) => {
    response.writeHead(401, { 'content-type': 'text/plain' }).end('no token');
    return true;
  };
  t.match(await session.call('echo', { text: 'x' }, never), { error: { type: 'http_error', code: 401 } });
  t.match(await session.list(never), { error: /^HTTP status 401: .*no token/ });
});

for (const [name, options, holds] of [
  ['the confirmation of the initialization', {}, (method?: string) => method === 'POST'],
  ['the event stream of the older transport', { sse: true }, (method?: string) => method === 'GET'],
] as const) {
  t.test(`the connection ends if ${name} takes too long`, async (t) => {
    const { server, session } = await open(t, options, { limits: { timeoutMs: 1_000 } });
    let requests = 0;
    const closed = new Promise<void>((resolve) => {
      server.intercept = (request, response) => {
        if (!holds(request.method)) return false;
        if (!('sse' in options) && ++requests === 1) return false; // initialize
        response.on('close', resolve);
        return true;
      };
    });
    t.match(await session.call('echo', { text: 'x' }, never), { error: { code: -32001 } });
    await closed;
    server.intercept = null;
    t.match(await session.call('echo', { text: 'hi' }, never), { text: 'hi' }, 'the next call connects again');
  });
}

t.test('close() ends an attempt to connect', async (t) => {
  const { server, session } = await open(t);
  const closed = new Promise<void>((resolve) => {
    server.intercept = (_request, response) => {
      response.on('close', resolve);
      session.close();
      return true;
    };
  });
  t.match(await session.call('echo', { text: 'x' }, never), { error: { message: 'The connection is closed.' } });
  await closed;
});

t.test('a server cannot cause any number of requests', async (t) => {
  const { server, session } = await open(t);
  await session.list(never);
  let requests = 0;
  server.intercept = (_request, response) => {
    if (++requests > 1) return true; // the responses to the pings wait
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (let id = 0; id < 100; id++) response.write(`data: {"jsonrpc":"2.0","id":${id},"method":"ping"}\n\n`);
    return true;
  };
  t.match(await session.call('echo', { text: 'x' }, never), { error: { message: /more than 32 requests/ } });
});

t.test('bytes between operations count', async (t) => {
  const { server, session } = await open(t, { sse: true }, { limits: { maxBytes: 100_000 } });
  let stream: import('node:http').ServerResponse | undefined;
  server.intercept = (request, response) => {
    if (request.method === 'GET') stream = response;
    return false;
  };
  await session.list(never);
  const first = stream;
  const closed = new Promise<void>((resolve) => void first?.on('close', resolve));
  for (let at = 0; at < 11; at++) first?.write(`: ${'x'.repeat(10_000)}\n\n`);
  await closed;
  t.match(await session.call('echo', { text: 'hi' }, never), { text: 'hi' });
  t.not(stream, first, 'the next call opens a new connection');
});

t.test('a server that is not there', async (t) => {
  const { server, session } = await open(t);
  await server.close();
  t.match(await session.list(never), { error: /ECONNREFUSED/ });
});

t.test('secrets are sent to the server, and masked in everything that it returns', async (t) => {
  const secret = 'Bearer very-secret-token-1234';
  const { server, session } = await open(t, {}, { headers: { authorization: secret, 'x-custom': 'plain' } });
  const { text } = await session.call('headers', {}, never);
  t.ok(server.authorizations.every((value) => value === secret));
  t.equal(server.headers['x-custom'], 'plain');
  t.match(text, /"x-custom":"plain"/);
  t.notMatch(text, /very-secret/);
  server.intercept = (_request, response) => {
    response.writeHead(500).end(`bad token ${secret}`);
    return true;
  };
  const { error } = await session.call('echo', { text: 'x' }, never);
  t.notMatch(JSON.stringify(error), /very-secret/);
});

t.test('secrets in the URL are masked', async (t) => {
  const { server } = await open(t);
  const url = new URL(server.url);
  url.pathname = '/s/bot123456:ABC-DEF1234ghIklzyx57W2v1u123/mcp-2025-03-26';
  url.search =
    '?apiToken=query-secret-words&tools=web_search_example,company_research&id=5f0c1c9e-7b1d-4c55-9d53-2f6a8d1f0a11';
  const session = new McpSession(serverOf(url.href), SETTINGS);
  t.teardown(() => session.close());
  const said = (text: string): boolean => /ABC-DEF|ghIklzyx|query-secret|5f0c1c9e/.test(text);
  server.intercept = (request, response) => {
    response.writeHead(500).end(`no such path: ${request.url ?? ''}`);
    return true;
  };
  const failed = await session.list(never);
  t.match(failed, { error: /500|no such path/ });
  t.notOk(said(JSON.stringify(failed)), JSON.stringify(failed));
  t.match(
    JSON.stringify(failed),
    /\/mcp-2025-03-26\?.*web_search_example,company_research/,
    'the rest of the URL is shown',
  );
});

t.test('secrets in listed tools are masked, and schemas that are nested too deeply are refused', async (t) => {
  let schema: unknown = { type: 'object', properties: { a: { enum: ['very-secret-token-1234'] } } };
  const { server, session } = await open(
    t,
    { json: true },
    { headers: { authorization: 'Bearer very-secret-token-1234' } },
  );
  let body = '';
  server.intercept = (request, response) => {
    if (request.method !== 'POST') return false;
    const respond = (result: unknown, id: unknown): void =>
      void response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ jsonrpc: '2.0', id, result }));
    body = '';
    request.on('data', (part: Buffer) => (body += part.toString()));
    request.on('end', () => {
      const { method, id, params } = JSON.parse(body) as {
        method: string;
        id: unknown;
        params?: { protocolVersion?: string };
      };
      if (method === 'initialize')
        return respond(
          {
            protocolVersion: params?.protocolVersion,
            capabilities: { tools: {} },
            serverInfo: { name: 'x', version: '1' },
          },
          id,
        );
      if (method === 'tools/list') return respond({ tools: [{ name: 'deep', inputSchema: schema }] }, id);
      return void response.writeHead(202).end();
    });
    return true;
  };
  const listing = await session.list(never);
  t.match(listing, { tools: [{ name: 'deep', inputSchema: { properties: { a: { enum: [String] } } } }] });
  t.notMatch(JSON.stringify(listing), /very-secret/);
  let inner: unknown = {};
  for (let level = 0; level < 1_000; level++) inner = { not: inner };
  schema = { type: 'object', not: inner };
  t.match(await session.list(never), { error: /inputSchema of the tool deep is nested deeper than 128 levels/ });
});

t.test('a redirect to another origin is not followed', async (t) => {
  const other = await startMcpServer();
  t.teardown(() => other.close());
  const { server, session } = await open(t, {}, { headers: { authorization: 'Bearer very-secret-token-1234' } });
  server.intercept = (_request, response) => {
    response.writeHead(307, { location: other.url }).end();
    return true;
  };
  t.match(await session.list(never), { error: /HTTP status 307/ });
  t.same(other.methods, [], 'the other server, although its host is allowed, receives nothing');
});

t.test('a redirect within the origin is followed', async (t) => {
  const { server, session } = await open(t, { json: true });
  server.intercept = (request, response) => {
    if (request.url !== '/mcp') return false;
    response.writeHead(308, { location: '/other' }).end();
    return true;
  };
  t.match(await session.call('echo', { text: 'moved' }, never), { text: 'moved' });
});

t.test('hosts that are not allowed, and private addresses, are not connected to', async (t) => {
  const { server } = await open(t);
  const listed = async (settings: Partial<McpSettings>, url = server.url): Promise<unknown> => {
    const session = new McpSession(serverOf(url), { ...SETTINGS, ...settings });
    return session.list(never);
  };
  t.match(await listed({ allowed_hosts: ['mcp.example.com'] }), { error: /127\.0\.0\.1 is not in mcp\.allowed_hosts/ });
  t.match(await listed({ public_only: true }), { error: /must use https/ });
  t.match(await listed({ public_only: true }, server.url.replace('http:', 'https:')), {
    error: /127\.0\.0\.1 is not a public address/,
  });
  t.match(await listed({ allowed_hosts: ['localhost'], public_only: true }, 'https://localhost/mcp'), {
    error: /localhost has no public address/,
  });
  t.same(server.methods, []);
});
