// A fake upstream that sends exactly the bytes a test sets, over real sockets.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { configWith } from '../../src/config/load.js';
import { startServer, type Server as Monolith } from '../../src/server/server.js';
import { createTelemetry } from '../../src/telemetry/telemetry.js';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Heard {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: Record<string, unknown>;
  readonly text: string;
}
export type Say = (response: ServerResponse, heard: Heard) => void | Promise<void>;

export interface StandIn {
  readonly url: string;
  readonly heard: Heard[];
  /** Number of requests whose connection was closed before their response was complete. */
  readonly left: number;
  readonly sockets: ReadonlySet<Socket>;
  /** Sets the responses to the next requests; the last response is repeated. */
  say: Say;
  /** Responses, by path, to requests for information such as model metadata. These requests are not recorded. */
  facts: Readonly<Record<string, object>>;
  close(): Promise<void>;
}

export async function startStandIn(say: Say): Promise<StandIn> {
  const heard: Heard[] = [];
  const sockets = new Set<Socket>();
  let left = 0;
  const server: Server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request
      .on('data', (part: Buffer) => parts.push(part))
      .on('end', () => {
        if (request.method === 'GET') {
          const fact = standIn.facts[request.url ?? ''];
          response
            .writeHead(fact === undefined ? 404 : 200, { 'content-type': 'application/json' })
            .end(JSON.stringify(fact ?? {}));
          return;
        }
        const text = Buffer.concat(parts).toString() || '{}';
        const one: Heard = {
          path: request.url ?? '',
          headers: request.headers,
          body: JSON.parse(text) as Record<string, unknown>,
          text,
        };
        heard.push(one);
        response.on('close', () => {
          if (!response.writableEnded) left++;
        });
        void Promise.resolve(standIn.say(response, one)).catch(() => response.destroy());
      });
  }).on('connection', (socket) => {
    sockets.add(socket.on('error', () => undefined));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const standIn: StandIn = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    heard,
    sockets,
    say,
    facts: {},
    get left() {
      return left;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
  return standIn;
}

/** A stream's lines, sent in one write. */
export const stream =
  (...data: (object | string)[]): Say =>
  (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(data.map((one) => `data: ${typeof one === 'string' ? one : JSON.stringify(one)}\n\n`).join(''));
  };

export const error =
  (status: number, body: object | string, headers: Record<string, string> = {}): Say =>
  (response) => {
    response.writeHead(status, {
      'content-type': typeof body === 'string' ? 'text/html' : 'application/json',
      ...headers,
    });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  };

export interface Gateway extends Pick<Monolith, 'close' | 'drain' | 'url'> {
  readonly key: string;
  readonly logs: string[];
  post(path: string, body: object, init?: RequestInit): Promise<Response>;
  get(path: string): Promise<Response>;
}

/** Starts a complete Monolith server in this process. All models of the server are upstream models. */
export async function startGateway(models: Record<string, object>, settings: object = {}): Promise<Gateway> {
  const dataDir = mkdtempSync(join(tmpdir(), 'monolith-upstream-'));
  const logs: string[] = [];
  const key = 'test-key-0123456789';
  // Passed like command-line flags, so that the built-in models are not added.
  const first = Object.entries(models)
    .filter(([, one]) => 'upstream' in one)
    .map(([name]) => `${name}=http://127.0.0.1:9/v1`);
  const files = Object.entries(models).flatMap(([name, one]) => ('file' in one ? [`${name}=${String(one.file)}`] : []));
  const others = Object.fromEntries(Object.entries(models).filter(([, one]) => !('file' in one)));
  const config = configWith({
    port: 0,
    data_dir: dataDir,
    api_key: key,
    model: [...first, ...files],
    models: others,
    ...settings,
  });
  const server = await startServer(config, {
    telemetry: createTelemetry({
      format: 'json',
      level: 'debug',
      write: (line) => logs.push(line),
      traces: config.telemetry.traces,
    }),
  });
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  return {
    url: server.url,
    key,
    logs,
    drain: () => server.drain(),
    post: (path, body, init = {}) =>
      fetch(server.url + path, {
        method: 'POST',
        body: JSON.stringify(body),
        ...init,
        headers: { ...headers, ...init.headers },
      }),
    get: (path) => fetch(server.url + path, { headers }),
    close: async () => {
      await server.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
