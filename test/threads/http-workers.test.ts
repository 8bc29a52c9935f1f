// Tests a server with two HTTP workers in this process. Each new connection goes to the next worker in turn, so a test
// selects the worker by opening connections.
import { mkdtempSync, rmSync } from 'node:fs';
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { httpServer, onNode } from '../support/http-server.js';
import { configWith } from '../../src/config/load.js';
import { HttpServer } from '../../src/http/app.js';
import { startServer } from '../../src/server/server.js';
import { UNKNOWN_KEY_BYTES } from '../../src/accounts/unknown-keys.js';
import { ledgerBytes, COUNTER_BYTES } from '../../src/admission/counter-memory.js';
import { HeldResponses } from '../../src/storage/held-responses.js';
import { createTelemetry } from '../../src/telemetry/telemetry.js';
import { HttpWorkers } from '../../src/server/workers/http-workers.js';
import { HubBus } from '../../src/server/workers/hub-bus.js';
import { ERASURE_HOLD_BYTES } from '../../src/shared/erasure-hold.js';
import { ThreadStates } from '../../src/shared/thread-states.js';
import { eventually } from '../e2e/monolith.js';
import { Connection } from '../support/web-socket.js';

const KEY = 'test-key-0123456789';
const folder = mkdtempSync(join(tmpdir(), 'monolith-threads-'));
const logs: string[] = [];
const server = await startServer(
  configWith({
    port: 0,
    data_dir: folder,
    api_key: KEY,
    log: 'json',
    log_level: 'error',
    http: { threads: 2, server: httpServer },
    limits: { concurrency: 3 },
    engine: { isa: 'plain', threads: 1, arithmetic: 'exact' },
  }),
  { telemetry: createTelemetry({ format: 'json', level: 'error', write: (line) => logs.push(line) }) },
);
t.teardown(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

/** Sends a request on a new connection. */
async function send(method: string, path: string, body?: object): Promise<IncomingMessage> {
  const sent = request({
    host: '127.0.0.1',
    port: server.port,
    method,
    path,
    agent: false,
    headers: { authorization: `Bearer ${KEY}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
  });
  sent.end(body === undefined ? undefined : JSON.stringify(body));
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return response;
}
async function ask<T = Record<string, never>>(
  method: string,
  path: string,
  body?: object,
): Promise<{ status: number; body: T }> {
  const response = await send(method, path, body);
  return { status: response.statusCode ?? 0, body: JSON.parse(await text(response)) as T };
}
const threads = async (): Promise<unknown> => (await ask<{ threads: unknown }>('GET', '/readyz')).body.threads;
const ENDLESS = { model: 'hal-1.0', max_output_tokens: 1_900, ignore_eos: true, input: 'tell me' };
interface Resource {
  id: string;
  status: string;
}

t.test('every worker reports metrics summed over all workers', async (t) => {
  const count = async (): Promise<[requests: number, steps: number]> => {
    const metrics = await text(await send('GET', '/metrics'));
    const value = (pattern: RegExp): number => Number(pattern.exec(metrics)?.[1] ?? NaN);
    t.equal(metrics.match(/^monolith_steps_total\{model="hal-1.0"\}/gm)?.length, 1, 'each engine is listed once');
    return [
      value(/^monolith_http_requests_total\{endpoint="\/v1\/chat\/completions",status="200",code=""\} (\d+)/m),
      value(/^monolith_steps_total\{model="hal-1.0"\} (\d+)/m),
    ];
  };
  for (let i = 0; i < 5; i++) {
    t.equal(
      (
        await ask('POST', '/v1/chat/completions', {
          model: 'hal-1.0',
          max_tokens: 2,
          messages: [{ role: 'user', content: 'hi' }],
        })
      ).status,
      200,
    );
  }
  const [first, second, third] = [await count(), await count(), await count()];
  t.equal(first[0], 5);
  t.ok(first[1] > 0);
  t.same(second, first);
  t.same(third, first);
});

t.test('a chain can be continued immediately on the other worker', async (t) => {
  let previous: string | undefined;
  for (let i = 0; i < 20; i++) {
    const { status, body } = await ask<Resource>('POST', '/v1/responses', {
      model: 'tycho-1.0',
      max_output_tokens: 1,
      ignore_eos: true,
      input: `turn ${i}`,
      ...(previous === undefined ? {} : { previous_response_id: previous }),
    });
    t.equal(status, 200, `turn ${i}`);
    previous = body.id;
    t.equal((await ask('GET', `/v1/responses/${previous}`)).status, 200);
  }
});

t.test('a background response can be followed, cancelled and deleted from any worker', async (t) => {
  const {
    body: { id },
  } = await ask<Resource>('POST', '/v1/responses', { ...ENDLESS, background: true });
  const followers = await Promise.all(
    [0, 1, 2].map((at) => send('GET', `/v1/responses/${id}?stream=true${at === 2 ? '&starting_after=1' : ''}`)),
  );
  const streams = followers.map((response) => text(response));
  t.ok(await eventually(async () => (await ask<Resource>('GET', `/v1/responses/${id}`)).body.status === 'in_progress'));
  t.match(
    await once(await send('GET', `/v1/responses/${id}?stream=true&starting_after=6`), 'data'),
    [/"sequence_number":7/],
    'the response has started',
  );
  const cancelled = await Promise.all([
    ask<Resource>('POST', `/v1/responses/${id}/cancel`),
    ask<Resource>('POST', `/v1/responses/${id}/cancel`),
  ]);
  for (const { status, body } of cancelled)
    t.match({ status, body }, { status: 200, body: { id, status: 'cancelled' } });
  const numbers = (await Promise.all(streams)).map((all) => {
    t.ok(all.endsWith('data: [DONE]\n\n'));
    t.match(all, /event: response\.incomplete/);
    return [...all.matchAll(/"sequence_number":(\d+)/g)].map(([, number]) => Number(number));
  });
  t.same(
    numbers[0],
    numbers[0]?.map((_, at) => at),
    'no event is missing',
  );
  t.ok((numbers[0]?.length ?? 0) > 6);
  t.same(numbers[1], numbers[0]);
  t.same(numbers[2], numbers[0]?.slice(2));
  for (const thread of [1, 2]) {
    const { body } = await ask<Resource>('POST', '/v1/responses', { ...ENDLESS, background: true });
    if (thread === 2) await ask('GET', '/healthz'); // the next connection goes to the other worker
    t.match(await ask('DELETE', `/v1/responses/${body.id}`), { status: 200, body: { deleted: true } });
    t.equal((await ask('GET', `/v1/responses/${body.id}`)).status, 404);
  }
  const running = await send('POST', '/v1/responses', { ...ENDLESS, stream: true });
  const [chunk] = (await once(running, 'data')) as [Buffer];
  const foreground = /"id":"(resp_[0-9a-f]+)"/.exec(chunk.toString())?.[1];
  for (let i = 0; i < 2; i++) {
    t.match(await ask('POST', `/v1/responses/${foreground}/cancel`), {
      status: 422,
      body: { error: { code: 'response_not_cancellable' } },
    });
    t.match(await ask('POST', `/v1/responses/resp_${'0'.repeat(48)}/cancel`), { status: 404 });
  }
  running.destroy();
});

t.test('WebSockets work on each worker', async (t) => {
  const connections = await Promise.all([1, 2, 3].map(() => Connection.open({ port: server.port, key: KEY })));
  for (const connection of connections) {
    connection.send({ input: 'hi', max_output_tokens: 2, store: false });
    let type = '';
    while (type !== 'response.completed' && type !== 'response.incomplete') ({ type } = await connection.next());
    t.match(type, /^response\./);
    connection.socket.close();
    await connection.closed;
  }
});

t.test('limits are counted over all workers, and a lost worker releases everything it held', async (t) => {
  const endless = {
    model: 'hal-1.0',
    stream: true,
    max_tokens: 1_900,
    ignore_eos: true,
    messages: [{ role: 'user', content: 'tell me' }],
  };
  t.ok(await eventually(() => server.pool.engines()[0]?.status.state === 'ready' && idle()));
  const open = await Promise.all([1, 2, 3].map(() => send('POST', '/v1/chat/completions', endless)));
  t.same(
    open.map(({ statusCode }) => statusCode),
    [200, 200, 200],
  );
  let lost = 0;
  const ends = open.map((response) =>
    text(response).then(
      () => 'ended',
      () => {
        lost++;
        return 'broken';
      },
    ),
  );
  for (let i = 0; i < 2; i++)
    t.match(await ask('POST', '/v1/chat/completions', endless), {
      status: 429,
      body: { error: { code: 'concurrency_limit_exceeded' } },
    });

  await server.threads?.replace(1, 'a test');
  t.same(await threads(), ['starting', 'serving']);
  t.equal((await ask('GET', '/readyz')).status, 200, 'the other worker still serves');
  t.ok(logs.some((line) => line.includes('HTTP worker lost')));
  const after = await ask<{ choices: unknown[] }>('POST', '/v1/chat/completions', {
    ...endless,
    stream: false,
    max_tokens: 1,
  });
  t.ok(lost > 0 || onNode, 'uws distributes connections evenly');
  t.equal(after.status, lost > 0 ? 200 : 429, 'a concurrency slot is free again');
  await server.threads?.replace(2, 'a test');
  t.same(await Promise.all(ends), ['broken', 'broken', 'broken']);
  t.ok(
    await eventually(async () => JSON.stringify(await threads()) === '["serving","serving"]'),
    'both workers are restarted',
  );
  t.ok(await eventually(idle), 'none of their requests is still running');
  const again = await Promise.all(
    [1, 2, 3].map(() => ask('POST', '/v1/chat/completions', { ...endless, stream: false, max_tokens: 1 })),
  );
  t.same(
    again.map(({ status }) => status),
    [200, 200, 200],
  );
});

t.test(
  'a background response of a lost worker is marked failed',
  { skip: onNode ? 'needs a response on each worker' : false },
  async (t) => {
    const ids: string[] = [];
    for (let i = 0; i < 2; i++)
      ids.push((await ask<Resource>('POST', '/v1/responses', { ...ENDLESS, background: true })).body.id);
    await server.threads?.replace(1, 'a test');
    const statuses = async (): Promise<string[]> =>
      Promise.all(ids.map(async (id) => (await ask<Resource>('GET', `/v1/responses/${id}`)).body.status));
    t.ok(await eventually(async () => (await statuses()).includes('failed')));
    t.equal(
      (await statuses()).filter((status) => status === 'failed').length,
      1,
      'the response of the other worker continues',
    );
    for (const id of ids) await ask('DELETE', `/v1/responses/${id}`);
  },
);

t.test('if a worker fails to start, the server fails to start with the same reason', async (t) => {
  const config = configWith({ data_dir: folder, http: { threads: 2 }, models: { nobody: { display_name: 'Nobody' } } });
  const telemetry = createTelemetry({ format: 'json', level: 'silent' });
  const bus = new HubBus({ threads: 2 });
  const shared = {
    process: 'here',
    unknownKeys: new SharedArrayBuffer(UNKNOWN_KEY_BYTES),
    erasure: new SharedArrayBuffer(ERASURE_HOLD_BYTES),
    counters: new SharedArrayBuffer(COUNTER_BYTES),
    ledgers: new SharedArrayBuffer(ledgerBytes(2)),
    upstreams: new SharedArrayBuffer(0),
    held: new SharedArrayBuffer(HeldResponses.bytes(3)),
    prompts: new SharedArrayBuffer(0),
    kvTier: new SharedArrayBuffer(4),
    threads: new SharedArrayBuffer(ThreadStates.bytes(2)),
  };
  const http = new HttpServer({
    config,
    telemetry,
    routes: [],
    authenticate: () => {
      throw new Error('no request is authenticated');
    },
  });
  await t.rejects(
    HttpWorkers.start({
      config,
      shared,
      bus,
      http,
      log: telemetry.log,
      onLost: () => t.fail('a worker that never started is not reported as lost'),
    }),
    { name: 'StartError', message: /nobody/ },
  );
  http.close();
  bus.close();
  void telemetry.close();
});

function idle(): boolean {
  return server.pool.engines().every(
    ({ status }) =>
      status.state === 'idle' || // on-demand models
      (status.state === 'ready' && status.engine.stats().running + status.engine.stats().waiting === 0),
  );
}
