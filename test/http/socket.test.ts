import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { WebSocket } from 'ws';
import type { ClientOptions } from 'ws';
import { apiError } from '../../src/shared/errors.js';
import { CLOSE } from '../../src/http/socket.js';
import type { ServerSocket, SocketListener, SocketRoute, SocketTurn } from '../../src/http/socket.js';
import { onNode } from '../support/http-server.js';
import { echoRoutes, startRoutes } from './running-server.js';
import type { RunningServer } from './running-server.js';

/** A route whose behavior the current test defines. */
class Scripted {
  socket: ServerSocket | undefined;
  opened = 0;
  closed = 0;
  drained = 0;
  message: SocketListener['message'] = () => undefined;
  readonly route: SocketRoute = {
    path: '/v1/socket',
    scope: 'inference',
    open: (socket) => {
      this.socket = socket;
      this.opened++;
      return {
        message: (bytes, binary) => this.message(bytes, binary),
        drain: () => void this.drained++,
        closed: () => void this.closed++,
      };
    },
  };

  echo(): void {
    this.message = (bytes, binary) => this.socket?.send(binary ? 'binary' : Buffer.from(bytes).toString());
  }
}

interface Client {
  socket: WebSocket;
  received: string[];
  headers: Record<string, unknown>;
  closed: Promise<[code: number, reason: string]>;
}

async function connect(server: RunningServer, options: ClientOptions = {}, path = '/v1/socket'): Promise<Client> {
  const socket = new WebSocket(`ws://127.0.0.1:${server.port}${path}`, {
    headers: { authorization: `Bearer ${server.key}` },
    ...options,
  });
  const received: string[] = [];
  socket.on('message', (data: Buffer) => received.push(data.toString()));
  const closed = once(socket, 'close').then(([code, reason]) => [code as number, String(reason)] as [number, string]);
  const upgraded = once(socket, 'upgrade');
  await once(socket, 'open');
  const [{ headers }] = (await upgraded) as [{ headers: Record<string, unknown> }];
  return { socket, received, headers, closed };
}

/** Returns the response to a refused handshake. */
async function refusal(
  server: RunningServer,
  headers: Record<string, string>,
  path = '/v1/socket',
): Promise<{ status: number | undefined; headers: Record<string, unknown>; body: { error: { code: string } } }> {
  const socket = new WebSocket(`ws://127.0.0.1:${server.port}${path}`, { headers });
  socket.on('error', () => undefined);
  const [, response] = (await once(socket, 'unexpected-response')) as [
    unknown,
    NodeJS.ReadableStream & { statusCode?: number; headers: Record<string, unknown> },
  ];
  let text = '';
  for await (const piece of response) text += String(piece);
  return {
    status: response.statusCode,
    headers: response.headers,
    body: JSON.parse(text) as { error: { code: string } },
  };
}

async function until(condition: () => boolean): Promise<boolean> {
  for (let i = 0; i < 4_000 && !condition(); i++) await sleep(5);
  return condition();
}

t.test('WebSocket handshakes are authenticated and limited', async (t) => {
  const script = new Scripted();
  const server = await startRoutes(echoRoutes, { ws: { max_connections: 2 } }, { sockets: [script.route] });
  t.teardown(() => server.close());
  const key = { authorization: `Bearer ${server.key}` };

  t.test('a WebSocket handshake is refused with the same errors as a request', async (t) => {
    const none = await refusal(server, {});
    t.match(none, { status: 401, body: { error: { code: 'missing_api_key' } } });
    t.match(none.headers['x-request-id'], /^req_/);
    t.equal(none.headers['request-id'], none.headers['x-request-id']);
    t.match(await refusal(server, { authorization: 'Bearer sk-wrong' }), {
      status: 401,
      body: { error: { code: 'invalid_api_key' } },
    });
    const { secret } = await server.accounts.createKey({ name: 'reader', scopes: ['models.read'] });
    t.match(await refusal(server, { 'x-api-key': secret }), {
      status: 403,
      body: { error: { code: 'endpoint_not_allowed' } },
    });
    t.match(await refusal(server, { ...key, host: 'rebound.example' }), {
      status: 400,
      body: { error: { code: 'invalid_header' } },
    });
    t.match(await refusal(server, key, '/v1/elsewhere'), {
      status: 404,
      body: { error: { code: 'unknown_endpoint' } },
    });
    const plain = await server.fetch('/v1/socket');
    t.equal(plain.status, 404);
    t.equal(plain.headers.get('allow'), 'OPTIONS');
    t.match(await plain.json(), { error: { code: 'method_not_allowed', message: /upgrade to WebSocket/ } });
    t.match(
      await server.raw(
        `GET /v1/socket HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.key}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OTAxMjM0NQ==\r\n\r\n`,
        200,
      ),
      /^HTTP\/1\.1 400 /,
    );
    t.equal(script.opened, 0);
  });

  t.test('handshakes are accepted with request ids, up to the connection limit of the organization', async (t) => {
    const first = await connect(server);
    t.match(first.headers['x-request-id'], /^req_/);
    t.equal(first.headers['request-id'], first.headers['x-request-id']);
    t.equal(first.headers['x-request-id'], script.socket?.requestId);
    t.equal(script.socket?.header('user-agent'), '');
    const second = await connect(
      server,
      { headers: { 'x-api-key': server.key, 'user-agent': 'Test/1' } },
      '/v1/socket/',
    );
    t.equal(script.socket?.header('user-agent'), 'Test/1');
    const third = await refusal(server, key);
    t.match(third, { status: 429, body: { error: { code: 'concurrency_limit_exceeded' } } });
    t.equal(third.headers['retry-after'], '1');
    first.socket.close();
    await first.closed;
    const again = await connect(server);
    for (const { socket } of [second, again]) socket.close();
    await Promise.all([second.closed, again.closed]);
    t.ok(await until(() => script.closed === 3), 'every close is reported');
    t.equal(server.http.inFlight, 0);
  });
});

t.test(
  "connections whose messages might exceed the organization's half of http.max_reading_bytes are refused",
  async (t) => {
    const script = new Scripted();
    const settings = {
      http: { max_reading_bytes: 1_048_576, max_body_bytes: 65_536 },
      ws: { max_message_bytes: 262_144, max_connections: 64 },
    };
    const server = await startRoutes(echoRoutes, settings, { sockets: [script.route] });
    t.teardown(() => server.close());
    const authorization = `Bearer ${server.key}`;
    const two = [await connect(server), await connect(server)];
    const third = await refusal(server, { authorization });
    t.match(third, {
      status: 503,
      body: {
        error: {
          code: 'capacity_exhausted',
          message: /Too many WebSocket connections: the incomplete messages of more than 2 connections/,
        },
      },
    });
    t.equal(third.headers['retry-after'], '1');
    two[0]!.socket.close();
    await two[0]!.closed;
    const again = await connect(server);
    again.socket.send('x'.repeat(262_145));
    t.same(await again.closed, [CLOSE.tooBig, 'A message may have at most 262144 bytes.']);
    two[1]!.socket.close();
    await two[1]!.closed;
  },
);

t.test('WebSocket messages are delivered and limited', async (t) => {
  const script = new Scripted();
  const server = await startRoutes(echoRoutes, { ws: { max_message_bytes: 4096 } }, { sockets: [script.route] });
  t.teardown(() => server.close());

  t.test('messages arrive complete and in order, with their type', async (t) => {
    script.echo();
    const { socket, received } = await connect(server);
    socket.send('one');
    socket.send('tw', { fin: false });
    socket.send('ö', { fin: true });
    socket.send(Buffer.from('three'));
    socket.send('x'.repeat(4096));
    t.ok(await until(() => received.length === 4));
    t.same(received, ['one', 'twö', 'binary', 'x'.repeat(4096)]);
    socket.close();
  });

  t.test('a message over the limit closes the connection with code 1009', async (t) => {
    const { socket, closed } = await connect(server);
    socket.send('x'.repeat(4097));
    t.equal((await closed)[0], CLOSE.tooBig);
    const huge = await connect(server);
    huge.socket.send('x'.repeat(2 * 4096 + 1));
    t.equal((await huge.closed)[0], onNode ? 1009 : 1006, 'uws closes the connection without a close frame');
  });

  t.test('a protocol error closes only its own connection', async (t) => {
    script.echo();
    const before = script.closed;
    const broken = await connect(server);
    (broken.socket as unknown as { _socket: Socket })._socket.write(Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0xff, 0xfe]));
    t.equal((await broken.closed)[0], onNode ? 1007 : 1006, 'a text message that is not UTF-8 closes its connection');
    const reserved = await connect(server);
    (reserved.socket as unknown as { _socket: Socket })._socket.write(Buffer.from([0xc1, 0x81, 0, 0, 0, 0, 0x61]));
    t.equal((await reserved.closed)[0], onNode ? 1002 : 1006, 'a frame with a reserved bit closes its connection');
    t.equal(script.closed, before + 2);
    const next = await connect(server);
    next.socket.send('still here');
    t.ok(await until(() => next.received[0] === 'still here'));
    next.socket.close();
  });

  t.test('an exception in the listener closes only its own connection', async (t) => {
    script.message = () => {
      throw new Error('inside');
    };
    const { socket, closed } = await connect(server);
    socket.send('x');
    t.same(await closed, [CLOSE.internalError, 'The server failed unexpectedly.']);
    t.match(server.logs.join(''), /inside/);
    script.echo();
    const next = await connect(server);
    next.socket.send('still here');
    t.ok(await until(() => next.received[0] === 'still here'));
    next.socket.close();
  });

  t.test('data sent before close() arrives', async (t) => {
    script.message = () => {
      for (let i = 0; i < 100; i++) script.socket?.send(`${i}`.padEnd(20_000));
      script.socket?.close(CLOSE.goingAway, 'done');
      script.socket?.send('late');
    };
    const { socket, received, closed } = await connect(server);
    socket.send('x');
    t.same(await closed, [1001, 'done']);
    t.same(
      received.map(Number),
      Array.from({ length: 100 }, (_, i) => i),
    );
  });
});

t.test('slow WebSocket readers are dropped when their buffer is full', async (t) => {
  const script = new Scripted();
  const server = await startRoutes([], { http: { stream_buffer_bytes: 65_536 } }, { sockets: [script.route] });
  t.teardown(() => server.close());
  const event = 'x'.repeat(16_000);

  t.test('a connection whose buffer exceeds the limit is dropped', async (t) => {
    const { socket, closed } = await connect(server);
    socket.pause();
    let most = 0;
    let sent = 0;
    const before = script.closed;
    for (; sent < 5000 && script.socket?.open === true; sent++) {
      script.socket.send(event);
      most = Math.max(most, script.socket.bufferedBytes);
      await nextTurn();
    }
    t.ok(sent < 5000, 'the connection was dropped before everything was written');
    t.ok(most <= 65_536 + 3 * event.length, `at most ${most} bytes were buffered`);
    t.equal(script.closed, before + 1);
    socket.resume();
    t.equal((await closed)[0], 1006);
  });

  t.test('a client that sends pings and does not read the pongs is dropped', async (t) => {
    const { socket, closed } = await connect(server);
    let pongs = 0;
    socket.on('pong', () => pongs++);
    for (let i = 0; i < 2_000; i++) socket.ping('x'.repeat(125));
    t.ok(
      await until(() => pongs === 2_000),
      'a client that reads the pongs stays connected, however many pings it sends',
    );
    socket.pause();
    let most = 0;
    const before = script.closed;
    for (let round = 0; round < 1_000 && script.socket?.open === true; round++) {
      for (let i = 0; i < 500; i++) socket.ping('x'.repeat(125));
      await nextTurn();
      if (script.socket?.open === true) most = Math.max(most, script.socket.bufferedBytes);
    }
    t.equal(script.closed, before + 1);
    t.ok(most < 1_000_000, `at most ${most} bytes were buffered`);
    socket.resume();
    t.equal((await closed)[0], 1006);
  });

  t.test('a reader that catches up receives everything in order', async (t) => {
    const { socket, received } = await connect(server);
    socket.pause();
    let full = false;
    const sending = (async () => {
      for (let i = 0; i < 2000; i++) {
        while (script.socket !== undefined && script.socket.bufferedBytes > 32_768) {
          full = true;
          await sleep(1);
        }
        script.socket?.send(`${i}`.padEnd(8000));
        await nextTurn();
      }
    })();
    t.ok(await until(() => full), 'the socket filled up');
    socket.resume();
    await sending;
    t.ok(await until(() => received.length === 2000));
    t.same(
      received.map(Number),
      Array.from({ length: 2000 }, (_, i) => i),
    );
    socket.close();
  });

  t.test('a connection is not dropped for one message above the limit', async (t) => {
    const { socket, received } = await connect(server);
    script.socket?.send('y'.repeat(20_000_000));
    await nextTurn();
    script.socket?.send('z');
    t.ok(await until(() => received.length === 2));
    t.equal(received[0]?.length, 20_000_000);
    socket.close();
  });
});

t.test('unanswered pings close the connection', async (t) => {
  const script = new Scripted();
  const server = await startRoutes([], {}, { sockets: [script.route], pingMs: 60 });
  t.teardown(() => server.close());
  const deaf = await connect(server, { autoPong: false });
  const alive = await connect(server);
  let pings = 0;
  alive.socket.on('ping', () => pings++);
  t.equal((await deaf.closed)[0], CLOSE.goingAway, 'two unanswered pings close the connection');
  t.ok(await until(() => pings >= 3));
  t.equal(alive.socket.readyState, WebSocket.OPEN, 'a client that responds stays');
  alive.socket.close();
});

t.test('responses in progress are counted, revoked keys close their connections, and shutdown waits', async (t) => {
  const script = new Scripted();
  const server = await startRoutes([], {}, { sockets: [script.route] });
  t.teardown(() => server.close());
  const { key, secret } = await server.accounts.createKey({ name: 'short-lived' });
  const client = await connect(server, { headers: { authorization: `Bearer ${secret}` } });
  const socket = script.socket as ServerSocket;
  t.equal(server.http.inFlight, 0, 'an idle connection is not a request in flight');
  const turn: SocketTurn = socket.turn();
  t.equal(server.http.inFlight, 1);
  turn.annotate({ model: 'm' });
  turn.end(200, null);
  turn.end(500, apiError('internal_error', 'too late'));
  t.equal(server.http.inFlight, 0);
  const line = server.logs
    .map((text) => JSON.parse(text) as Record<string, unknown>)
    .filter(({ request_id }) => request_id === turn.requestId);
  t.match(line, [
    {
      method: 'WEBSOCKET',
      path: '/v1/socket',
      status: 200,
      outcome: 'completed',
      model: 'm',
      connection: socket.requestId,
    },
  ]);
  t.equal(line.length, 1);

  await socket.identify();
  t.equal(socket.identity.keyId, key.id);
  await server.accounts.revokeKey(key.id);
  await t.rejects(async () => socket.identify(), { code: 'api_key_revoked' });

  const running = socket.turn();
  server.http.draining = true;
  server.http.draining = true;
  t.equal(script.drained, 1, 'the route is notified of draining once');
  t.equal(socket.draining, true);
  t.match(await refusal(server, { authorization: `Bearer ${server.key}` }), {
    status: 503,
    body: { error: { code: 'shutting_down' } },
  });
  let idle = false;
  void server.http.idle().then(() => {
    idle = true;
  });
  await nextTurn();
  t.equal(idle, false, 'shutdown waits for the response in progress');
  running.end(200, null);
  t.ok(await until(() => idle));
  socket.close(CLOSE.serviceRestart, 'restart');
  t.same(await client.closed, [1012, 'restart']);
});
