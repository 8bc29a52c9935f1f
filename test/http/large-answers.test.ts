// Large answers are held once, known to be held, and not for ever: by who reads slowly, or asks for more than one answer may have.
import { createHash } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { Route } from '../../src/http/exchange.js';
import { JsonList, JsonText } from '../../src/http/json-text.js';
import { startRoutes, type RunningServer } from './running-server.js';

const MIB = 1024 * 1024;

/** A text that is never the same twice, so that what is lost or doubled shows. */
const long = (bytes: number): string =>
  Array.from({ length: Math.ceil(bytes / 10) }, (_, index) => index.toString(36).padStart(9, '0') + 'é').join('');

const routes: Route[] = [
  {
    method: 'GET',
    path: '/text',
    scope: null,
    serve: (exchange) => exchange.json(200, { a: long(Number(exchange.query.get('bytes'))) }),
  },
  {
    method: 'GET',
    path: '/pieces',
    scope: null,
    serve: (exchange) => {
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
    serve: (exchange) => {
      const bytes = Number(exchange.query.get('bytes'));
      exchange.jsonInTurn(bytes, 200, { a: long(bytes), ...(exchange.query.has('bad') ? { b: [10n] } : {}) });
    },
  },
  {
    method: 'GET',
    path: '/grows',
    scope: null,
    serve: (exchange) => {
      for (let at = 0; at < 100; at++) exchange.hold(MIB);
      exchange.json(200, {});
    },
  },
];

/** Somebody who asks and reads nothing. */
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

t.test('they come whole, however they are read', async (t) => {
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
      'put together of pieces',
    );
  }
  t.equal((await server.fetch(`/text?bytes=${MIB}`, { method: 'HEAD' })).status, 200);
});

t.test('one that is made in slices is the same, and others are served between them', async (t) => {
  const server = await startRoutes(routes, { http: { max_answering_bytes: 96 * MIB, max_body_bytes: MIB } });
  t.teardown(() => server.close());
  for (const bytes of [10, 200_000, 12 * MIB])
    t.equal(await (await server.fetch(`/sliced?bytes=${bytes}`)).text(), JSON.stringify({ a: long(bytes) }));
  t.equal((await server.fetch(`/sliced?bytes=${MIB}&bad`)).status, 500, 'what cannot be made is told');
  t.equal((await server.fetch(`/sliced?bytes=${64 * MIB}`)).status, 422, 'and what is too large is not begun');
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
  t.ok(before > 8, `${before} others before it begins`);
  const gone = reader(server, `/sliced?bytes=${12 * MIB}`);
  await sleep(20);
  gone.destroy();
  await turns();
  t.equal(server.http.inFlight, 0, 'who goes meanwhile leaves nothing');
});

t.test('of one organization no more are held than its share', async (t) => {
  const server = await startRoutes(routes, { http: { max_answering_bytes: 32 * MIB, max_body_bytes: MIB } });
  t.teardown(() => server.close());
  const slow = [reader(server, `/text?bytes=${6 * MIB}`), reader(server, `/text?bytes=${6 * MIB}`)];
  await turns();
  const refused = await server.fetch(`/text?bytes=${6 * MIB}`);
  t.equal(refused.status, 503);
  t.equal((await errorOf(refused)).code, 'capacity_exhausted');
  t.equal(refused.headers.get('retry-after'), '1');
  t.equal((await server.fetch('/text?bytes=1000')).status, 200, 'a small one needs no room');
  for (const socket of slow) socket.destroy();
  await turns();
  t.equal((await server.fetch(`/text?bytes=${6 * MIB}`)).status, 200, 'who has gone holds nothing');
  for (let at = 0; at < 8; at++)
    t.equal((await (await server.fetch(`/text?bytes=${6 * MIB}`)).text()).length > 0, true, 'nor who has read it');

  const endless = await server.fetch('/grows');
  t.equal(endless.status, 422, 'no answer may have more by itself');
  t.match(await errorOf(endless), {
    code: 'unsupported_value',
    message: `The response would exceed the maximum of ${16 * MIB} bytes.`,
  });
  t.ok((await (await server.fetch(`/text?bytes=${6 * MIB}`)).text()).length > 6 * MIB, 'and holds nothing afterwards');
  t.equal(server.http.inFlight, 0);
});

t.test('who takes too long over one is left', async (t) => {
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
  t.same(dropped, ['slow reader'], 'and the log says why');
  socket.destroy();
});
