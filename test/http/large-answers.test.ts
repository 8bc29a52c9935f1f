// Tests large responses. Each is held in memory only once and counts toward a memory budget. Slow readers are
// disconnected, and responses above the limit are refused.
import { createHash } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { Route } from '../../src/http/exchange.js';
import { JsonList, JsonText } from '../../src/http/json-text.js';
import { startRoutes, type RunningServer } from './running-server.js';

const MIB = 1024 * 1024;

/** Generates text without repetition, so that lost or duplicated bytes are detected. */
const long = (bytes: number): string =>
  Array.from({ length: Math.ceil(bytes / 10) }, (_, index) => index.toString(36).padStart(9, '0') + 'é').join('');

const routes: Route[] = [
  {
    method: 'GET',
    path: '/text',
    scope: null,
    handler: (exchange) => exchange.json(200, { a: long(Number(exchange.query.get('bytes'))) }),
  },
  {
    method: 'GET',
    path: '/pieces',
    scope: null,
    handler: (exchange) => {
      const list = new JsonList();
      for (let at = 0; at < Number(exchange.query.get('count')); at++) list.add(JSON.stringify(`${at}é`));
      const body = new JsonText().add('{"a":');
      list.into(body);
      exchange.json(200, body.add('}'));
    },
  },
  {
    method: 'GET',
    path: '/sliced',
    scope: null,
    handler: (exchange) => {
      const bytes = Number(exchange.query.get('bytes'));
      exchange.jsonEnqueued(bytes, 200, { a: long(bytes), ...(exchange.query.has('bad') ? { b: [10n] } : {}) });
    },
  },
  {
    method: 'GET',
    path: '/grows',
    scope: null,
    handler: (exchange) => {
      for (let at = 0; at < 100; at++) exchange.reserve(MIB);
      exchange.json(200, {});
    },
  },
];

/** Opens a client that sends a request and never reads the response. */
function reader(server: RunningServer, path: string): Socket {
  const socket = connect(server.port, '127.0.0.1').on('error', () => undefined);
  socket.pause();
  socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.key}\r\n\r\n`);
  return socket;
}

const turns = async (): Promise<void> => {
  for (let at = 0; at < 20; at++) await sleep(5);
};
const errorOf = async (response: Response): Promise<{ code: string; message: string }> =>
  ((await response.json()) as { error: { code: string; message: string } }).error;

t.test('large responses arrive complete, regardless of how the client reads', async (t) => {
  const server = await startRoutes(routes);
  t.teardown(() => server.close());
  const wanted = `{"a":${JSON.stringify(long(12 * MIB))}}`;
  const socket = reader(server, `/text?bytes=${12 * MIB}`);
  const digest = createHash('sha256');
  let head = '';
  let got = 0;
  for await (const data of socket as AsyncIterable<Buffer>) {
    let body = data;
    if (!head.endsWith('\r\n\r\n')) {
      const end = data.indexOf('\r\n\r\n') + 4;
      head += data.subarray(0, end).toString();
      body = data.subarray(end);
    }
    digest.update(body);
    got += body.length;
    if (got % 7 === 0) await sleep(2);
    if (got === Buffer.byteLength(wanted)) break;
  }
  t.match(head, new RegExp(`^HTTP/1.1 200 OK\r\n[^]*content-length: ${Buffer.byteLength(wanted)}\r\n`, 'i'));
  t.equal(digest.digest('hex'), createHash('sha256').update(wanted).digest('hex'));
  for (const count of [0, 1, 10_000, 1_000_000]) {
    const { a } = (await (await server.fetch(`/pieces?count=${count}`)).json()) as { a: string[] };
    t.equal(a.length, count);
    t.equal(
      a.every((entry, at) => entry === `${at}é`),
      true,
      'a response built from pieces is complete',
    );
  }
  t.equal((await server.fetch(`/text?bytes=${MIB}`, { method: 'HEAD' })).status, 200);
});

t.test('a response serialized in slices is identical, and other requests are served between slices', async (t) => {
  const server = await startRoutes(routes, { http: { max_answering_bytes: 96 * MIB, max_body_bytes: MIB } });
  t.teardown(() => server.close());
  for (const bytes of [10, 200_000, 12 * MIB])
    t.equal(await (await server.fetch(`/sliced?bytes=${bytes}`)).text(), JSON.stringify({ a: long(bytes) }));
  t.equal((await server.fetch(`/sliced?bytes=${MIB}&bad`)).status, 500, 'a serialization failure is an error response');
  t.equal(
    (await server.fetch(`/sliced?bytes=${64 * MIB}`)).status,
    422,
    'a response that is too large is refused before it is serialized',
  );
  let others = 0,
    before = 0,
    over = false;
  const large = server
    .fetch(`/sliced?bytes=${12 * MIB}`)
    .then((response) => {
      before = others;
      return response.arrayBuffer();
    })
    .then(() => {
      over = true;
    });
  while (!over) {
    await server.fetch('/text?bytes=10');
    others++;
  }
  await large;
  t.ok(before > 8, `${before} other requests were served before the large response started`);
  const gone = reader(server, `/sliced?bytes=${12 * MIB}`);
  await sleep(20);
  gone.destroy();
  await turns();
  t.equal(server.http.inFlight, 0, 'a client that disconnects during serialization leaves nothing in flight');
});

t.test("one organization's buffered responses are limited to its share", async (t) => {
  const server = await startRoutes(routes, { http: { max_answering_bytes: 32 * MIB, max_body_bytes: MIB } });
  t.teardown(() => server.close());
  const slow = [reader(server, `/text?bytes=${6 * MIB}`), reader(server, `/text?bytes=${6 * MIB}`)];
  await turns();
  const refused = await server.fetch(`/text?bytes=${6 * MIB}`);
  t.equal(refused.status, 503);
  t.equal((await errorOf(refused)).code, 'capacity_exhausted');
  t.equal(refused.headers.get('retry-after'), '1');
  t.equal((await server.fetch('/text?bytes=1000')).status, 200, 'a small response is not limited');
  for (const socket of slow) socket.destroy();
  await turns();
  t.equal((await server.fetch(`/text?bytes=${6 * MIB}`)).status, 200, 'a disconnected client holds no memory');
  for (let at = 0; at < 8; at++)
    t.equal(
      (await (await server.fetch(`/text?bytes=${6 * MIB}`)).text()).length > 0,
      true,
      'a client that has read its response holds no memory',
    );

  const endless = await server.fetch('/grows');
  t.equal(endless.status, 422, 'a single response is limited as well');
  t.match(await errorOf(endless), {
    code: 'unsupported_value',
    message: `The response would exceed the maximum of ${16 * MIB} bytes.`,
  });
  t.ok(
    (await (await server.fetch(`/text?bytes=${6 * MIB}`)).text()).length > 6 * MIB,
    'a refused response holds no memory',
  );
  t.equal(server.http.inFlight, 0);
});

t.test('a client that reads too slowly is dropped', async (t) => {
  const dropped: unknown[] = [];
  const server = await startRoutes(
    routes,
    {},
    { answerTimeoutMs: 300, finished: ({ fields }) => dropped.push(fields['dropped']) },
  );
  t.teardown(() => server.close());
  const socket = reader(server, `/text?bytes=${16 * MIB}`);
  await turns();
  t.equal(server.http.inFlight, 1);
  await sleep(600);
  t.equal(server.http.inFlight, 0);
  t.same(dropped, ['slow reader'], 'the log gives the reason');
  socket.destroy();
});
