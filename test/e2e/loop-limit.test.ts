// A client sends large requests to a real server, which rejects all of them. The event-loop time of these requests must
// count toward the organization's limit in every API format, and both the operator and the organization must be able to
// see it. Also tests the size limit for headers with several HTTP workers.
import t from 'tap';
import { withoutThreads } from '../support/http-server.js';
import { WebSocket } from 'ws';
import { startScripted } from '../support/script-model.js';
import { eventually } from './monolith.js';
import { dataFolder, keyOf } from './stored-server.js';

t.setTimeout(120_000); // the machine may be busy

/**
 * Only the last message is invalid. Checking this many messages takes far longer than the ten milliseconds available.
 */
const messages = [
  ...Array.from({ length: 30_000 }, () => ({ role: 'user', content: 'x' })),
  { role: 'nobody', content: 'x' },
];
const BODIES = {
  '/v1/chat/completions': { model: 'hal-1.0', messages },
  '/v1/messages': { model: 'hal-1.0', max_tokens: 1, messages },
  '/v1/responses': { model: 'hal-1.0', input: messages },
};

for (const [path, body] of Object.entries(BODIES)) {
  t.test(path, async (t) => {
    const data = dataFolder();
    const server = await startScripted({ env: { MONOLITH_DATA_DIR: data.path, MONOLITH_LIMITS_EVENT_LOOP_MS: '1' } });
    t.teardown(async () => {
      await server.stop();
      data.remove();
    });
    const other = await keyOf(data.path, 'second');
    const post = (key: string): Promise<Response> =>
      fetch(server.url + path, {
        method: 'POST',
        body: JSON.stringify(body),
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      });
    const first = await post(server.key);
    t.equal(first.status, 400, await first.text());
    const second = await post(server.key);
    t.equal(second.status, 429);
    t.ok(Number(second.headers.get('retry-after')) > 0);
    t.match(await second.json(), { error: { type: 'rate_limit_error', code: 'rpm_limit_exceeded' } });
    t.equal((await post(other)).status, 400, 'another organization has its own limit');
    const metrics = await server.metrics();
    t.equal(metrics.get(`monolith_event_loop_limit_refused_total{endpoint="${path}"}`), 1);
    t.ok(
      [...metrics].some(
        ([name, value]) =>
          name.startsWith(`monolith_request_event_loop_seconds_total{endpoint="${path}",status="400"`) && value > 0.01,
      ),
    );
    if (path !== '/v1/responses') return;
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}${path}`, {
      headers: { authorization: `Bearer ${server.key}` },
    });
    const heard = new Promise((resolve) =>
      socket.once('message', (bytes: Buffer) => resolve(JSON.parse(bytes.toString()))),
    );
    socket.once('open', () => socket.send(JSON.stringify({ type: 'response.create', ...body })));
    t.match(await heard, { type: 'error', status: 429, error: { code: 'rpm_limit_exceeded' } });
    socket.terminate();
  });
}

t.test('storing, reading and continuing a long conversation counts toward the event-loop limit', async (t) => {
  const data = dataFolder();
  const server = await startScripted({ env: { MONOLITH_DATA_DIR: data.path, MONOLITH_LIMITS_EVENT_LOOP_MS: '1' } });
  t.teardown(async () => {
    await server.stop();
    data.remove();
  });
  const ask = async (
    path: string,
    body: object | null,
    key = server.key,
  ): Promise<{
    status: number;
    retryAfter: number;
    body: { id: string; error?: { code: string; message: string } };
  }> => {
    const response = await fetch(server.url + path, {
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === null
        ? {}
        : { method: 'POST', body: JSON.stringify({ model: 'hal-1.0', truncation: 'auto', ...body }) }),
    });
    return {
      status: response.status,
      retryAfter: Number(response.headers.get('retry-after')),
      body: (await response.json()) as { id: string },
    };
  };
  const short = await ask('/v1/responses', { input: 'A: hi' });
  const long = await ask('/v1/responses', {
    input: [
      { role: 'user', content: 'x'.repeat(6_000_000) },
      { role: 'assistant', content: 'ok' },
      { role: 'user', content: 'A: hi' },
    ],
  });
  t.same([short.status, long.status], [200, 200]);
  const items = `/v1/responses/${long.body.id}/input_items`;
  let read = 0;
  while ((await ask(items, null)).status === 200 && read < 500) read++;
  t.ok(read < 500, 'reading the conversation counts toward the limit');
  for (const [path, body] of [
    [items, null],
    ['/v1/responses', { previous_response_id: long.body.id, input: 'A: hi' }],
    ['/v1/responses/input_tokens', { previous_response_id: long.body.id, input: 'A: hi' }],
  ] as const) {
    const refused = await ask(path, body);
    t.match(
      refused,
      {
        status: 429,
        body: { error: { code: 'rpm_limit_exceeded', message: /large requests and stored conversations/ } },
      },
      path,
    );
    t.ok(refused.retryAfter > 0);
  }
  const socket = new WebSocket(`${server.url.replace('http', 'ws')}/v1/responses`, {
    headers: { authorization: `Bearer ${server.key}` },
  });
  const heard = new Promise((resolve) =>
    socket.once('message', (bytes: Buffer) => resolve(JSON.parse(bytes.toString()))),
  );
  socket.once('open', () =>
    socket.send(
      JSON.stringify({ type: 'response.create', model: 'hal-1.0', previous_response_id: long.body.id, input: 'A: hi' }),
    ),
  );
  t.match(await heard, { type: 'error', status: 429, error: { code: 'rpm_limit_exceeded' } });
  socket.terminate();
  t.equal(
    (await ask(`/v1/responses/${short.body.id}/input_items`, null)).status,
    200,
    'a short conversation is still served',
  );
  t.equal((await ask('/v1/responses', { previous_response_id: short.body.id, input: 'A: hi' })).status, 200);
  t.equal(
    (await ask('/v1/responses', { input: 'A: hi' }, await keyOf(data.path, 'second'))).status,
    200,
    'another organization is still served',
  );
});

t.test('http.max_header_bytes applies on every HTTP worker', { skip: withoutThreads }, async (t) => {
  const server = await startScripted({ args: ['--http-threads', '2', '--http-max-header-bytes', '65536'] });
  t.teardown(() => server.stop());
  const status = async (bytes: number): Promise<number> => {
    const response = await fetch(`${server.url}/v1/models`, {
      headers: { authorization: `Bearer ${server.key}`, cookie: 'c'.repeat(bytes), connection: 'close' },
    });
    await response.text();
    return response.status;
  };
  t.ok(await eventually(async () => (await status(10)) === 200));
  for (let i = 0; i < 4; i++) t.equal(await status(60_000), 200);
  for (let i = 0; i < 4; i++) t.equal(await status(70_000), 400);
});
