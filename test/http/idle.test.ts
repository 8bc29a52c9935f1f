// Tests the idle timeouts. The HTTP library closes connections that send no complete request within 20 seconds, and
// idle connections 32 seconds after a response. Waiting for the model does not count as idle, and a request body may
// pause for longer.
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { WebSocket } from 'ws';
import type { Exchange, Route } from '../../src/http/exchange.js';
import type { SocketRoute } from '../../src/http/socket.js';
import { eventually } from '../e2e/monolith.js';
import { onNode } from '../support/http-server.js';
import { startRoutes } from './running-server.js';
import type { RunningServer } from './running-server.js';

t.setTimeout(180_000); // the machine may be busy
t.jobs = 3; // the tests spend their time waiting

// Longer than any of the timeouts.
const LONG_MS = 33_000;

async function stream(exchange: Exchange): Promise<void> {
  const events = exchange.sse();
  if ((exchange.body as { early?: boolean }).early === true) events.send('{"n":1}');
  await sleep(LONG_MS);
  events.send('{"n":2}');
  events.end();
}

let flooded: Exchange | null = null;

/** Sends more than the kernel buffers, but less than http.stream_buffer_bytes, and then waits. */
async function flood(exchange: Exchange): Promise<void> {
  const events = exchange.sse();
  events.send(JSON.stringify('x'.repeat(20_000_000)));
  flooded = exchange;
  while (!exchange.aborted) await sleep(100);
}

async function whole(exchange: Exchange): Promise<void> {
  await sleep((exchange.body as { wait: number }).wait);
  exchange.json(200, { done: true });
}

const routes: Route[] = [
  { method: 'POST', path: '/stream', scope: 'inference', handler: stream },
  { method: 'POST', path: '/whole', scope: 'inference', handler: whole },
  { method: 'POST', path: '/flood', scope: 'inference', handler: flood },
];

const echo: SocketRoute = {
  path: '/socket',
  scope: null,
  open: (socket) => ({
    message: (bytes) => socket.send(Buffer.from(bytes).toString()),
    drain: () => undefined,
    closed: () => undefined,
  }),
};

/** Sends `body` in two halves, `pauseMs` apart. Resolves with all the bytes received. */
function halves(server: RunningServer, body: string, pauseMs: number, waitMs: number): Promise<string> {
  const head = `POST /whole HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.key}\r\nContent-Length: ${body.length}\r\n\r\n`;
  return new Promise((resolve) => {
    let text = '';
    const socket = connect(server.port, '127.0.0.1', () => socket.write(head + body.slice(0, 5)));
    const second = setTimeout(() => socket.write(body.slice(5)), pauseMs);
    const end = setTimeout(() => socket.destroy(), waitMs);
    socket.on('data', (data) => {
      text += data.toString();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(second);
      clearTimeout(end);
      resolve(text);
    });
  });
}

t.test('connections that wait for the model outlive the idle timeout', async (t) => {
  const server = await startRoutes(routes, { http: { keepalive_ms: 60_000 } }, { sockets: [echo] });
  t.teardown(() => server.close());
  const socket = new WebSocket(`ws://127.0.0.1:${server.port}/socket`, {
    headers: { authorization: `Bearer ${server.key}` },
  });
  const heard = new Promise<string>((resolve) => {
    socket.on('open', () => setTimeout(() => socket.send('still here?'), LONG_MS));
    socket.on('message', (data: Buffer) => resolve(data.toString()));
    socket.on('close', () => resolve('closed'));
  });
  const [silent, late, answer, slowBody, slowBoth, quiet] = await Promise.all([
    server.post('/stream', { early: true }).then((response) => response.text()),
    server.post('/stream', {}).then((response) => response.text()),
    server.post('/whole', { wait: LONG_MS }).then((response) => response.json()),
    halves(server, '{"wait": 0}', LONG_MS, LONG_MS + 2_000),
    halves(server, `{"wait": ${LONG_MS}}`, 5_000, LONG_MS + 7_000),
    heard,
  ]);
  t.equal(silent, 'data: {"n":1}\n\ndata: {"n":2}\n\n', 'a stream outlives a pause between two tokens');
  t.equal(late, 'data: {"n":2}\n\n', 'a stream outlives a pause before its first token');
  t.same(answer, { done: true }, 'a response without streaming outlives the idle timeout');
  t.match(slowBody, /^HTTP\/1\.1 200 OK/, 'a request body may pause for longer than the idle timeout');
  t.equal(quiet, 'still here?', 'a WebSocket without messages stays open');
  socket.terminate();
  t.match(slowBoth, /^HTTP\/1\.1 200 OK/, 'the timer of a paused body stops when the body is complete');
});

t.test('a connection without a complete request is closed without a response', async (t) => {
  const server = await startRoutes(routes, { http: { idle_ms: 2_000 } });
  t.teardown(() => server.close());
  const BOUND_MS = 25_000; // node: 18 to 19 s; uws: 16 to 20 s. The machine may be busy.
  const idle = async (): Promise<void> => {
    const began = performance.now();
    t.match(await server.raw('GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n', 60_000), /^HTTP\/1\.1 404 /);
    const after = Math.round(performance.now() - began);
    // node: http.idle_ms, plus a second in later Node.js versions
    const [least, most] = onNode ? [1_900, 15_000] : [10_000, 50_000];
    t.ok(after > least && after < most, `after a response, the connection was idle for ${after} ms`);
  };
  const unread = async (): Promise<void> => {
    const socket = connect(server.port, '127.0.0.1', () =>
      socket.write(
        `POST /flood HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.key}\r\nContent-Length: 2\r\n\r\n{}`,
      ),
    );
    socket.pause();
    const began = performance.now();
    t.ok(await eventually(() => flooded !== null), 'the response has started');
    t.ok(await eventually(() => flooded?.aborted === true, 60_000), 'a client that reads nothing is disconnected');
    const after = Math.round(performance.now() - began);
    t.ok(after > 8_000 && after < 45_000, `after ${after} ms`);
    socket.destroy();
  };
  const incomplete = Promise.all(
    ['', '\r\n', '\r\n\r\nGET', 'GET / HT'].map(async (bytes) => {
      const began = performance.now();
      t.equal(await server.raw(bytes, BOUND_MS), '');
      t.ok(
        performance.now() - began < BOUND_MS - 1_000,
        `${JSON.stringify(bytes)} after ${Math.round(performance.now() - began)} ms`,
      );
    }),
  );
  await Promise.all([incomplete, idle(), unread()]);
});

t.test('a body that never completes is refused and the connection is closed', async (t) => {
  const server = await startRoutes(routes, {}, { bodyTimeoutMs: 300 });
  t.teardown(() => server.close());
  const began = performance.now();
  const text = await halves(server, '{"wait": 0}', 120_000, 60_000);
  t.ok(performance.now() - began < 60_000, "the connection is closed before the test's own timeout");
  t.match(text, /^HTTP\/1\.1 400 Bad Request\r\n/);
  t.match(text, /\r\nConnection: close\r\n/);
  t.match(text, /"code":"request_timeout"/);
  t.equal(server.http.inFlight, 0);
});
