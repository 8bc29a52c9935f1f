// Tests that only a few of the requests that arrive together start at a time. Other organizations and the rest of the
// event loop are served in between.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setImmediate as nextIteration, setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { WebSocket } from 'ws';
import type { Identity } from '../../src/shared/identity.js';
import type { Route } from '../../src/http/exchange.js';
import type { SocketRoute } from '../../src/http/socket.js';
import { StartQueue } from '../../src/http/start-queue.js';
import { startRoutes, type RunningServer } from './running-server.js';

const BUSY_MS = 1;
/** Number of starts of BUSY_MS each that fit in one time slice, plus the first start, which does not wait. */
const MAX_IN_AN_ITERATION = 5;

function busy(): void {
  for (const end = performance.now() + BUSY_MS; performance.now() < end; );
}

/** Returns the number of starts in each event-loop iteration, until there have been `count`. */
async function perIteration(started: () => number, count: number): Promise<number[]> {
  const counts: number[] = [started()];
  for (let before = started(); before < count; before = started()) {
    await nextIteration();
    counts.push(started() - before);
  }
  return counts;
}

t.test('starting requests uses a limited slice of each event-loop iteration', async (t) => {
  const starts = new StartQueue();
  let started = 0;
  for (let i = 0; i < 60; i++)
    starts.add('org_a', () => {
      started++;
      busy();
    });
  t.equal(started, 1, 'the first request starts immediately');
  const counts = await perIteration(() => started, 60);
  t.ok(Math.max(...counts) <= MAX_IN_AN_ITERATION, counts.join());
});

t.test('the time of a start includes work after awaiting resolved promises', async (t) => {
  const starts = new StartQueue();
  let started = 0;
  const start = async (): Promise<void> => {
    for (let i = 0; i < 10; i++) await null;
    started++;
    busy();
  };
  for (let i = 0; i < 60; i++) starts.add('org_a', () => void start());
  const counts = await perIteration(() => started, 60);
  t.ok(Math.max(...counts) <= MAX_IN_AN_ITERATION, counts.join());
});

t.test('organizations take turns, each with its requests in order, and a failed start blocks no other', async (t) => {
  const starts = new StartQueue();
  const order: string[] = [];
  const failures: unknown[] = [];
  process.once('uncaughtException', (error) => failures.push(error));
  for (let i = 0; i < 20; i++)
    starts.add('org_a', () => {
      order.push(`a${i}`);
      if (i === 2) throw new Error('inside');
    });
  const waited: string[] = [];
  for (let i = 0; i < 3; i++)
    starts.add(
      'org_b',
      () => order.push(`b${i}`),
      () => waited.push(`b${i}`),
    );
  t.same(order, ['a0', 'b0'], 'the first request of each organization starts immediately');
  t.same(waited, ['b1', 'b2'], 'waiting requests are notified of the wait first');
  while (order.length < 23) await sleep(1);
  t.same(order.slice(2, 8), ['a1', 'b1', 'a2', 'b2', 'a3', 'a4']);
  t.equal(order.at(-1), 'a19');
  t.equal(failures.length, 1);
});

t.test('a burst over HTTP does not delay another organization', async (t) => {
  const BURST = 50;
  let served = 0;
  let servedBefore = NaN;
  const routes: Route[] = [
    {
      method: 'POST',
      path: '/v1/slow',
      scope: null,
      handler: async (exchange) => {
        await null;
        served++;
        busy();
        exchange.json(200, {});
      },
    },
    {
      method: 'GET',
      path: '/v1/slow',
      scope: null,
      handler: (exchange) => {
        served++;
        busy();
        exchange.json(200, {});
      },
    },
    {
      method: 'GET',
      path: '/v1/quick',
      scope: null,
      handler: (exchange) => {
        servedBefore = served;
        exchange.json(200, {});
      },
    },
  ];
  const sockets: SocketRoute = {
    path: '/v1/socket',
    scope: null,
    open: (socket) => ({
      message: (bytes) => {
        served++;
        busy();
        socket.send(String(bytes[0]));
      },
      drain: () => undefined,
      closed: () => undefined,
    }),
  };
  // The key itself is used as the organization.
  const identity = (key: string): Identity => ({
    organizationId: key,
    organizationNumber: 1,
    keyId: key,
    models: ['*'],
    scopes: [],
    limits: {},
    keyLimits: null,
    monthlyTokenCap: null,
  });
  const server = await startRoutes(routes, {}, { authenticate: identity, sockets: [sockets] });
  t.teardown(() => server.close());

  const head = (method: string, path: string, key: string): string =>
    `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n`;
  const bursts: [string, (server: RunningServer) => Promise<() => void>][] = [
    [
      'requests with a body',
      (at) => opened(t, at, `${head('POST', '/v1/slow', 'org_a')}Content-Length: 2\r\n\r\n{}`, BURST),
    ],
    ['requests without a body', (at) => opened(t, at, `${head('GET', '/v1/slow', 'org_a')}\r\n`, BURST)],
    [
      'messages of WebSockets',
      async () => {
        const clients = await Promise.all(
          Array.from({ length: BURST }, async () => {
            const socket = new WebSocket(`ws://127.0.0.1:${server.port}/v1/socket`, {
              headers: { authorization: 'Bearer org_a' },
            });
            await once(socket, 'open');
            return socket;
          }),
        );
        t.teardown(() => clients.forEach((socket) => socket.terminate()));
        return () => clients.forEach((socket) => socket.send('x'));
      },
    ],
  ];
  for (const [what, open] of bursts) {
    served = 0;
    servedBefore = NaN;
    const send = await open(server);
    const other = await opened(t, server, `${head('GET', '/v1/quick', 'org_b')}\r\n`, 1);
    send();
    other();
    while (Number.isNaN(servedBefore)) await sleep(1);
    t.ok(
      servedBefore < BURST / 2,
      `${what}: ${servedBefore} of ${BURST} started before another organization's request`,
    );
    while (served < BURST) await sleep(5);
  }
});

/** Opens connections that send `bytes` when the returned function is called. */
async function opened(t: Test, { port }: RunningServer, bytes: string, count: number): Promise<() => void> {
  const connections = await Promise.all(
    Array.from({ length: count }, async (): Promise<Socket> => {
      const socket = connect(port, '127.0.0.1');
      socket.on('error', () => undefined).resume();
      await once(socket, 'connect');
      return socket;
    }),
  );
  await sleep(50); // lets the server accept the connections
  t.teardown(() => connections.forEach((socket) => socket.destroy()));
  return () => connections.forEach((socket) => socket.write(bytes));
}
