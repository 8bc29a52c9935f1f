// A real MCP server, made with the official SDK, on a real socket. Its tools echo, fail, hang, and return large, binary
// or structured results.
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { z } from 'zod';

export interface McpTestServer {
  readonly url: string;
  readonly host: string;
  /** Tool calls: the tool's name and its arguments. */
  readonly calls: [name: string, given: unknown][];
  /** The JSON-RPC methods that were called. */
  readonly methods: string[];
  /** The value of the authorization header of each request. */
  readonly authorizations: (string | undefined)[];
  /** The headers of the last request. */
  headers: IncomingMessage['headers'];
  /** Number of calls of `hang` that the client has cancelled. */
  readonly cancelled: number;
  /** Handles requests in place of the MCP server. */
  intercept: ((request: IncomingMessage, response: ServerResponse) => boolean) | null;
  close(): Promise<void>;
}

export interface McpTestOptions {
  /** Responds with JSON instead of an event stream. */
  json?: boolean;
  /** Keeps no session. */
  stateless?: boolean;
  /** Speaks only the older transport with server-sent events. */
  sse?: boolean;
  /** Number of additional tools. */
  more?: number;
  port?: number;
}

const text = (content: string): { content: { type: 'text'; text: string }[] } => ({
  content: [{ type: 'text', text: content }],
});
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

export async function startMcpServer(options: McpTestOptions = {}): Promise<McpTestServer> {
  const calls: McpTestServer['calls'] = [];
  const methods: string[] = [];
  const authorizations: (string | undefined)[] = [];
  const sockets = new Set<Socket>();
  const transports = new Map<string, StreamableHTTPServerTransport | SSEServerTransport>();
  let cancelled = 0;

  const build = (): McpServer => {
    const server = new McpServer({ name: 'test', version: '1.0.0' });
    server.registerTool(
      'echo',
      { description: 'Repeats a text.', inputSchema: { text: z.string() }, annotations: { readOnlyHint: true } },
      (given) => {
        calls.push(['echo', given]);
        return text(given.text);
      },
    );
    server.registerTool('fail', { description: 'Fails.' }, () => {
      calls.push(['fail', {}]);
      return { ...text('T: the disk is full'), isError: true };
    });
    server.registerTool('hang', { description: 'Never returns.' }, async ({ signal }) => {
      calls.push(['hang', {}]);
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      cancelled++;
      return text('');
    });
    server.registerTool('large', { inputSchema: { bytes: z.number() } }, (given) => {
      calls.push(['large', given]);
      return text('x'.repeat(given.bytes));
    });
    server.registerTool('image', {}, () => {
      calls.push(['image', {}]);
      return {
        content: [
          { type: 'text', text: 'T: a pixel' },
          { type: 'image', mimeType: 'image/png', data: PIXEL },
        ],
      };
    });
    server.registerTool('structured', { outputSchema: { degrees: z.number() } }, () => {
      calls.push(['structured', {}]);
      return { content: [], structuredContent: { degrees: 14 } };
    });
    server.registerTool('headers', {}, ({ requestInfo }) => {
      calls.push(['headers', {}]);
      return text(`T: ${JSON.stringify(requestInfo?.headers ?? {})}`);
    });
    for (let at = 0; at < (options.more ?? 0); at++) server.registerTool(`more_${at}`, {}, () => text('T: more'));
    return server;
  };

  const http = createServer((request, response) => {
    server.headers = request.headers;
    authorizations.push(request.headers.authorization);
    if (server.intercept?.(request, response) === true) return;
    void handle(request, response).catch((error: unknown) => {
      if (!response.headersSent) response.writeHead(500);
      response.end(String(error));
    });
  }).on('connection', (socket) => {
    sockets.add(socket.on('error', () => undefined));
  });

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = request.method === 'POST' ? await bodyOf(request) : undefined;
    for (const message of [body].flat() as ({ method?: string } | undefined)[])
      if (message?.method !== undefined) methods.push(message.method);
    if (options.sse === true) return handleSse(request, response, body);
    const id = request.headers['mcp-session-id'] as string | undefined;
    let transport = id === undefined ? undefined : (transports.get(id) as StreamableHTTPServerTransport | undefined);
    if (transport === undefined) {
      const created = new StreamableHTTPServerTransport({
        ...(options.stateless === true ? {} : { sessionIdGenerator: randomUUID }),
        enableJsonResponse: options.json === true,
        onsessioninitialized: (session) => void transports.set(session, created),
      });
      transport = created;
      await build().connect(transport as Transport);
    }
    await transport.handleRequest(request, response, body);
  }

  async function handleSse(request: IncomingMessage, response: ServerResponse, body: unknown): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://localhost');
    if (url.pathname === '/messages') {
      await (transports.get(url.searchParams.get('sessionId') ?? '') as SSEServerTransport).handlePostMessage(
        request,
        response,
        body,
      );
    } else if (request.method === 'GET') {
      const transport = new SSEServerTransport('/messages', response);
      transports.set(transport.sessionId, transport);
      await build().connect(transport);
    } else {
      response.writeHead(405).end();
    }
  }

  await new Promise<void>((resolve) => http.listen(options.port ?? 0, '127.0.0.1', resolve));
  const server: McpTestServer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    host: '127.0.0.1',
    calls,
    methods,
    authorizations,
    headers: {},
    intercept: null,
    get cancelled() {
      return cancelled;
    },
    close: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
  return server;
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return JSON.parse(Buffer.concat(parts).toString());
}
