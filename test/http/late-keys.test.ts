// Tests requests whose key lookup takes time: no data is lost during the lookup, and no state remains afterwards.
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { WebSocket } from 'ws';
import type { Identity } from '../../src/shared/identity.js';
import { eventually } from '../e2e/monolith.js';
import { echoRoutes, errorOf, startRoutes } from './running-server.js';

t.test('a key that is revoked while a streamed body arrives is refused at its end', async (t) => {
  let isRevoked = false;
  let finished = 0;
  const server = await startRoutes(
    [
      {
        method: 'POST',
        path: '/v1/things',
        scope: 'inference',
        streamsBody: true,
        async handler(exchange) {
          for await (const _ of exchange.bodyStream ?? []);
          finished++;
          exchange.json(200, {});
        },
      },
    ],
    {},
    { authenticate: (key) => server.accounts.authenticate(isRevoked ? 'sk-none' : key) },
  );
  t.teardown(() => server.close());
  const head = `POST /v1/things HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer ${server.key}\r\nContent-Length: 4\r\n\r\n`;
  for (const status of [200, 401]) {
    let text = '';
    const socket = connect(server.port, '127.0.0.1', () => socket.write(`${head}ab`));
    socket.on('error', () => undefined).on('data', (data) => (text += data.toString('latin1')));
    await sleep(1_200);
    isRevoked = status === 401;
    socket.write('cd');
    t.ok(await eventually(() => text.startsWith('HTTP/1.1 ')));
    t.match(text, `HTTP/1.1 ${status} `);
    socket.destroy();
  }
  t.equal(finished, 1);
});

t.test('requests wait for an asynchronous key lookup without losing data', async (t) => {
  let waiting: (() => void)[] = [];
  const letIn = (): void => {
    for (const one of waiting.splice(0)) one();
  };
  let heard = '';
  const server = await startRoutes(
    echoRoutes,
    {},
    {
      authenticate: async (key): Promise<Identity> => {
        await new Promise<void>((resolve) => waiting.push(resolve));
        return server.accounts.authenticate(key);
      },
      sockets: [
        {
          path: '/v1/socket',
          scope: 'inference',
          open: (socket) => ({
            message: (bytes) => {
              heard += Buffer.from(bytes).toString();
              socket.send('heard');
            },
            drain: () => undefined,
            closed: () => undefined,
          }),
        },
      ],
    },
  );
  t.teardown(() => server.close());
  const came = (count: number): Promise<boolean> => eventually(() => waiting.length >= count);

  const text = 'x'.repeat(4 * 1024 * 1024);
  const large = server.post('/v1/chat/completions', { text });
  const small = server.post('/v1/messages', { a: 1 });
  const none = server.fetch('/v1/things/7?q=1');
  await came(3);
  letIn();
  t.same(await (await large).json(), { echo: { text } }, 'a body that arrives before and after the lookup is complete');
  t.same(await (await small).json(), { echo: { a: 1 } });
  t.same(await (await none).json(), { id: '7', query: 'q=1' });

  const unknown = server.post('/v1/chat/completions', { text }, { authorization: 'Bearer sk-none' });
  await came(1);
  letIn();
  const refused = await unknown;
  t.equal(refused.status, 401);
  t.equal((await errorOf(refused)).code, 'invalid_api_key');

  const body = JSON.stringify({ a: 'x'.repeat(1_000_000) });
  const socket = connect(server.port, '127.0.0.1', () =>
    socket.write(
      `POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 500_000)}`,
    ),
  );
  socket.on('error', () => undefined);
  await came(1);
  socket.destroy();
  letIn();
  t.ok(
    await eventually(() => server.http.inFlight === 0),
    'a client that disconnects during a paused body is noticed when reading resumes',
  );
  const reader = connect(server.port, '127.0.0.1', () =>
    reader.write(`GET /v1/things/1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.key}\r\n\r\n`),
  );
  reader.on('error', () => undefined);
  await came(1);
  reader.destroy();
  t.ok(
    await eventually(() => server.http.inFlight === 0),
    'a client without a body that disconnects is noticed immediately',
  );
  letIn();
  const late = server.post('/v1/messages', { b: 2 });
  await came(1);
  letIn();
  t.same(await (await late).json(), { echo: { b: 2 } }, 'a client that disconnects during the lookup leaves no state');

  const client = new WebSocket(`ws://127.0.0.1:${server.port}/v1/socket`, {
    headers: { authorization: `Bearer ${server.key}` },
  });
  const answer = new Promise<string>((resolve, reject) =>
    client.on('message', (data) => resolve(String(data as Buffer))).on('error', reject),
  );
  client.on('open', () => client.send('hello'));
  await came(1);
  letIn();
  t.equal(await answer, 'heard');
  t.equal(heard, 'hello');
  client.close();
  const stranger = new WebSocket(`ws://127.0.0.1:${server.port}/v1/socket`, {
    headers: { authorization: 'Bearer sk-none' },
  });
  const status = new Promise<number | undefined>((resolve) =>
    stranger.on('unexpected-response', (_, response) => resolve(response.statusCode)),
  );
  await came(1);
  letIn();
  t.equal(await status, 401);
  t.equal(waiting.length, 0);
  waiting = [];
});

t.test('a key revoked during the upload of a body is refused', async (t) => {
  const server = await startRoutes(echoRoutes);
  t.teardown(() => server.close());
  const body = JSON.stringify({ a: 1 });
  /** Sends half of a body. Returns a function that sends the rest and resolves with the response. */
  const begin = async (secret: string): Promise<() => Promise<string>> => {
    let answer = '';
    const socket = connect(server.port, '127.0.0.1').on('data', (bytes: Buffer) => {
      answer += bytes.toString();
    });
    socket.write(
      `POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${secret}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 3)}`,
    );
    t.ok(await eventually(() => server.http.inFlight > 0));
    return async () => {
      socket.write(body.slice(3));
      t.ok(await eventually(() => server.http.inFlight === 0 && answer.endsWith('}')));
      socket.destroy();
      return answer;
    };
  };
  const { key, secret } = await server.accounts.createKey({ name: 'k' });
  const slow = await begin(secret);
  await sleep(1_100);
  t.match(
    await slow(),
    /^HTTP\/1\.1 200 [^]*\{"echo":\{"a":1\}\}$/,
    'a key that is still valid after the upload is accepted',
  );
  const late = await begin(secret);
  await server.accounts.revokeKey(key.id);
  await sleep(1_100);
  t.match(await late(), /^HTTP\/1\.1 401 [^]*"api_key_revoked"/);
});
