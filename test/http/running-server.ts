// A real HttpServer on a free port, with real accounts in a real database and the test's routes.

import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Accounts } from '../../src/accounts/accounts.js';
import { openAccounts } from '../../src/storage/lmdb/accounts/directory.js';
import { configWith } from '../../src/config/load.js';
import type { Config } from '../../src/config/settings.js';
import { HttpServer } from '../../src/http/app.js';
import type { HttpOptions } from '../../src/http/app.js';
import type { Route } from '../../src/http/exchange.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import type { Store } from '../../src/storage/store.js';
import { createTelemetry } from '../../src/telemetry/telemetry.js';
import type { Telemetry } from '../../src/telemetry/types.js';
import { httpServer } from '../support/http-server.js';

export interface RunningServer {
  url: string;
  port: number;
  key: string;
  accounts: Accounts;
  store: Store;
  http: HttpServer;
  telemetry: Telemetry;
  config: Config;
  logs: string[];
  /** Calls fetch with the API key; `path` is relative. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>;
  /** Sends raw bytes. Resolves with the received data when the server closes the connection or after `waitMs`. */
  raw(bytes: string | Buffer, waitMs?: number): Promise<string>;
  close(): Promise<void>;
}

/** Settings by group, such as `{ http: { max_body_bytes: 4096 } }`. */
export interface Settings {
  http?: object;
  limits?: object;
  ws?: object;
}

export async function startRoutes(
  routes: Route[],
  settings: Settings = {},
  options: Partial<Pick<HttpOptions, 'authenticate'>> &
    Pick<HttpOptions, 'answerTimeoutMs' | 'bodyTimeoutMs' | 'chunkSilenceMs' | 'finished' | 'pingMs' | 'sockets'> = {},
): Promise<RunningServer> {
  const dataDir = mkdtempSync(join(tmpdir(), 'monolith-http-'));
  const listening = { server: httpServer, ...settings.http };
  const config = configWith({ port: 0, data_dir: dataDir, ...settings, http: listening });
  const store = await openStore(dataDir);
  const accounts = openAccounts(store);
  const { created } = await accounts.bootstrap(null);
  const key = created as string;
  const logs: string[] = [];
  const telemetry = createTelemetry({ format: 'json', level: 'info', write: (line) => logs.push(line) });
  const http = new HttpServer({
    config,
    routes,
    authenticate: (secret) => accounts.authenticate(secret),
    telemetry,
    ...options,
  });
  const port = await http.listen(config.host, 0);
  const url = `http://127.0.0.1:${port}`;
  return {
    url,
    port,
    key,
    accounts,
    store,
    http,
    telemetry,
    config,
    logs,
    fetch: (path, init = {}) =>
      fetch(url + path, { ...init, headers: { authorization: `Bearer ${key}`, ...init.headers } }),
    post: (path, body, headers = {}) =>
      fetch(url + path, {
        method: 'POST',
        body: typeof body === 'string' ? body : JSON.stringify(body),
        headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, ...headers },
      }),
    raw: (bytes, waitMs = 3000) =>
      new Promise((resolve) => {
        const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
        let text = '';
        // The wait is split into ten parts. The server runs in this process and must be able to run in between, even if
        // a timer is late.
        let parts = 10;
        const timer = setInterval(() => {
          if (--parts === 0) socket.destroy();
        }, waitMs / parts);
        socket.on('data', (data) => {
          text += data.toString('latin1');
        });
        socket.on('error', () => undefined);
        socket.on('close', () => {
          clearInterval(timer);
          resolve(text);
        });
      }),
    close: async () => {
      http.close();
      void telemetry.close();
      await accounts.close();
      await store.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/** POST /v1/chat/completions and GET /v1/models echo the request, which is enough to test the HTTP rules. */
export const echoRoutes: Route[] = [
  {
    method: 'POST',
    path: '/v1/chat/completions',
    scope: 'inference',
    handler: (exchange) => exchange.json(200, { echo: exchange.body }),
  },
  {
    method: 'POST',
    path: '/v1/messages',
    scope: 'inference',
    handler: (exchange) => exchange.json(200, { echo: exchange.body }),
  },
  {
    method: 'GET',
    path: '/v1/things/:id',
    scope: null,
    handler: (exchange) => exchange.json(200, { id: exchange.params['id'], query: exchange.query.toString() }),
  },
  {
    method: 'GET',
    path: '/healthz',
    scope: null,
    public: true,
    handler: (exchange) => exchange.json(200, { status: 'ok' }),
  },
];

export async function errorOf(
  response: Response,
): Promise<{ message: string; type: string; param: string | null; code: string }> {
  const body = (await response.json()) as {
    error: { message: string; type: string; param: string | null; code: string };
  };
  return body.error;
}
