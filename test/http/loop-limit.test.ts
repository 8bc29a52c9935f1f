// Tests limits.event_loop_ms on a running server. The event-loop time of large requests is charged to their
// organization. Once its budget is used up, further large requests are refused unread.
import { performance } from 'node:perf_hooks';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { WebSocket } from 'ws';
import { openAccounts } from '../../src/storage/lmdb/accounts/directory.js';
import type { Organization } from '../../src/accounts/keys.js';
import { ApiError } from '../../src/shared/errors.js';
import type { Route } from '../../src/http/exchange.js';
import type { SocketRoute } from '../../src/http/socket.js';
import { errorOf, startRoutes } from './running-server.js';

/**
 * More than the burst of ten milliseconds that limits.event_loop_ms = 1 allows; a few requests exceed a minute's
 * budget.
 */
const WORK_MS = 100;
let served = 0;
function work(): void {
  served++;
  for (const end = performance.now() + WORK_MS; performance.now() < end; );
}

const routes: Route[] = [
  {
    method: 'POST',
    path: '/public',
    scope: null,
    public: true,
    handler: (exchange) => {
      work();
      exchange.json(200, {});
    },
  },
  ...['/v1/chat/completions', '/v1/messages'].map(
    (path): Route => ({
      method: 'POST',
      path,
      scope: 'inference',
      handler: (exchange) => {
        work();
        exchange.json(200, {});
      },
    }),
  ),
];
/** A small request with a large response, which is produced later. */
const later: Route = {
  method: 'POST',
  path: '/v1/later',
  scope: 'inference',
  async handler(exchange) {
    await Promise.resolve();
    exchange.charged(Number(exchange.query.get('size')), work);
    exchange.json(200, {});
  },
};
const socket: SocketRoute = {
  path: '/v1/turns',
  scope: null,
  open: (connection) => ({
    message: (bytes) => {
      const turn = connection.turn();
      try {
        turn.read(bytes.length, work);
        connection.send('done');
        turn.end(200, null);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        connection.send(error.code);
        turn.end(error.status, error);
      }
    },
    drain: () => undefined,
    closed: () => undefined,
  }),
};

const LARGE = { a: 'x'.repeat(16_384) };
const CHAT = '/v1/chat/completions';

t.test("the event-loop time of large requests is charged to their organization's budget", async (t) => {
  const server = await startRoutes(routes, { limits: { event_loop_ms: 1 } }, { sockets: [socket] });
  t.teardown(() => server.close());
  t.beforeEach(() => {
    served = 0;
  });
  const second: Organization = {
    id: `org_${'B'.repeat(24)}`,
    tenant: 2,
    name: 'Second',
    status: 'active',
    createdAt: new Date().toISOString(),
  };
  await server.store.table<Organization>('organizations').insert(second.id, second);
  const accounts = openAccounts(server.store);
  const { secret } = await accounts.createKey({ name: 'a test key' }, second.id);
  await accounts.close();
  const metric = async (name: string): Promise<number> =>
    Number(new RegExp(`^${name.replace(/[{}]/g, '\\$&')} (.*)$`, 'm').exec(await server.telemetry.scrape())?.[1] ?? 0);

  t.test('small requests are not charged', async (t) => {
    for (let i = 0; i < 3; i++) t.equal((await server.post(CHAT, {})).status, 200);
    t.equal(await metric(`monolith_request_event_loop_seconds_total{endpoint="${CHAT}",status="200",code=""}`), 0);
  });

  t.test('large requests are charged, then refused before their bodies are read', async (t) => {
    t.equal((await server.post(CHAT, LARGE)).status, 200);
    t.equal(served, 1);
    t.ok(
      (await metric(`monolith_request_event_loop_seconds_total{endpoint="${CHAT}",status="200",code=""}`)) >=
        WORK_MS / 1000,
    );
    const refusals = await Promise.all([
      server.post(CHAT, LARGE),
      server.post(CHAT, `{"a": this is no JSON ${'x'.repeat(16_384)}`),
      server.fetch(CHAT, {
        method: 'POST',
        body: gzipSync(JSON.stringify(LARGE)),
        headers: { 'content-encoding': 'gzip' },
      }),
      server.fetch(CHAT, {
        method: 'POST',
        body: new Blob([JSON.stringify(LARGE)]).stream(),
        duplex: 'half',
      } as RequestInit),
    ]);
    for (const [at, refused] of refusals.entries()) {
      t.equal(refused.status, 429, `refusal ${at}`);
      t.equal(refused.headers.get('retry-after'), '60');
      t.match(await errorOf(refused), {
        type: 'rate_limit_error',
        code: 'rpm_limit_exceeded',
        param: null,
        message: /1 ms per second/,
      });
    }
    const messages = await server.post('/v1/messages', LARGE);
    t.equal(messages.status, 429);
    t.match(
      await messages.json(),
      { type: 'error', error: { type: 'rate_limit_error', code: 'rpm_limit_exceeded' }, request_id: /^req_/ },
      'the refusal has the error format of the API',
    );
    t.equal(served, 1, 'refused requests did not reach the route');
    t.equal(await metric(`monolith_event_loop_limit_refused_total{endpoint="${CHAT}"}`), 4);
    t.equal(await metric('monolith_event_loop_limit_refused_total{endpoint="/v1/messages"}'), 1);
    t.ok(
      server.logs.some((line) => /"status":200,.*"loop_ms":\d/.test(line)),
      'the log contains the event-loop time of a request',
    );
    t.ok(
      server.logs.some((line) => /"code":"rpm_limit_exceeded",.*"refused_by":"loop_ms"/.test(line)),
      'the log names the limit that refused a request',
    );
  });

  t.test('the server does not wait for the rest of a refused body', async (t) => {
    const head = await server.raw(
      `POST ${CHAT} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.key}\r\nContent-Length: 20000\r\n\r\n`,
      20_000,
    );
    t.match(head, /^HTTP\/1\.1 429 .*\r\nConnection: close\r\n/s);
  });

  t.test('small requests and other organizations are still served', async (t) => {
    t.equal((await server.post(CHAT, {})).status, 200);
    t.equal((await server.post(CHAT, LARGE, { authorization: `Bearer ${secret}` })).status, 200);
    t.equal(served, 2);
  });

  t.test('a request with an unknown key is not charged or read', async (t) => {
    const spent = await metric(
      `monolith_request_event_loop_seconds_total{endpoint="${CHAT}",status="401",code="invalid_api_key"}`,
    );
    t.equal((await server.post(CHAT, LARGE, { authorization: 'Bearer nobody' })).status, 401);
    t.equal(served, 0);
    t.equal(spent, 0);
  });

  t.test('routes without authentication have no shared budget that one client could exhaust', async (t) => {
    for (let i = 0; i < 3; i++) t.equal((await server.post('/public', LARGE)).status, 200);
  });

  t.test('WebSocket responses are charged to the same budget', async (t) => {
    const client = new WebSocket(`ws://127.0.0.1:${server.port}/v1/turns`, {
      headers: { authorization: `Bearer ${server.key}` },
    });
    const ask = (text: string): Promise<string> =>
      new Promise((resolve) => {
        client.once('message', (data: Buffer) => resolve(data.toString()));
        client.send(text);
      });
    await new Promise((resolve) => client.once('open', resolve));
    t.equal(await ask('small'), 'done');
    t.equal(await ask(JSON.stringify(LARGE)), 'rpm_limit_exceeded');
    t.equal(served, 1);
    t.equal(await metric('monolith_event_loop_limit_refused_total{endpoint="/v1/turns"}'), 1);
    client.terminate();
  });
});

t.test('large responses to small requests are charged', async (t) => {
  const server = await startRoutes([...routes, later], { limits: { event_loop_ms: 1 } });
  t.teardown(() => server.close());
  t.equal((await server.post('/v1/later?size=10', {})).status, 200);
  t.equal((await server.post('/v1/later?size=16384', {})).status, 200);
  t.equal((await server.post(CHAT, LARGE)).status, 429, 'the large response was charged');
  t.equal(
    (await server.post('/v1/later?size=16384', {})).status,
    200,
    'a small request is not refused although its response is large',
  );
  t.match(
    await server.telemetry.scrape(),
    /^monolith_request_event_loop_seconds_total\{endpoint="\/v1\/later",status="200",code=""\} 0\.2/m,
  );
});

t.test('null disables the limit', async (t) => {
  const server = await startRoutes(routes, { limits: { event_loop_ms: null } });
  t.teardown(() => server.close());
  for (let i = 0; i < 3; i++) t.equal((await server.post(CHAT, LARGE)).status, 200);
});
