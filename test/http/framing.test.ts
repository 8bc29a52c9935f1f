// Tests where a request ends: bytes that a proxy in front would see as part of a body must never be treated as a
// request.
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { Exchange, Route } from '../../src/http/exchange.js';
import { onNode } from '../support/http-server.js';
import { echoRoutes, startRoutes } from './running-server.js';

const served: string[] = [];
let held: Exchange | undefined;
const routes: Route[] = [
  ...echoRoutes,
  {
    method: 'GET',
    path: '/v1/hidden',
    scope: null,
    handler: (exchange) => {
      served.push('hidden');
      exchange.json(200, {});
    },
  },
  {
    method: 'POST',
    path: '/v1/cancel',
    scope: null,
    bodyOptional: true,
    handler: (exchange) => {
      served.push('cancel');
      exchange.json(200, { body: exchange.body ?? null });
    },
  },
  {
    method: 'POST',
    path: '/v1/wait',
    scope: null,
    handler: async (exchange) => {
      held = exchange;
      await new Promise(() => undefined);
    },
  },
];

t.test('ambiguous request framing never lets a second request through', async (t) => {
  const server = await startRoutes(routes, {}, { chunkSilenceMs: 400 });
  t.teardown(() => server.close());
  t.beforeEach(() => {
    served.length = 0;
  });
  const common = `Host: localhost\r\nAuthorization: Bearer ${server.key}\r\n`;
  const hidden = `GET /v1/hidden HTTP/1.1\r\n${common}\r\n`;
  const post = (headers: string, body: string, path = '/v1/chat/completions'): string =>
    `POST ${path} HTTP/1.1\r\n${common}${headers}\r\n${body}`;
  /** Sends the second part once a response has arrived or the connection has been closed. */
  const inTwo = (first: string, second: string): Promise<string> =>
    new Promise((resolve) => {
      let text = '';
      const socket = connect(server.port, '127.0.0.1', () => socket.write(first));
      socket.once('data', () => socket.write(second));
      socket.on('data', (data) => {
        text += data.toString();
      });
      socket.on('error', () => undefined);
      socket.on('close', () => resolve(text));
    });
  const chunks = '2\r\n{}\r\n0\r\n\r\n';

  t.test('a Transfer-Encoding other than a single `chunked` is refused and the connection is closed', async (t) => {
    for (const value of [
      'foo',
      'identity',
      'gzip, chunked',
      'chunked, chunked',
      'xchunked',
      'chunked\r\nTransfer-Encoding: chunked',
      'identity\r\nTransfer-Encoding: chunked',
      '',
    ]) {
      const text = await inTwo(post(`Transfer-Encoding: ${value}\r\n`, chunks), hidden);
      t.match(text, /^HTTP\/1\.1 400 Bad Request\r\n/, value);
      t.match(text, /\r\nConnection: close\r\n/, value);
      t.match(text, /"param":"Transfer-Encoding","code":"invalid_header"/, value);
      const together = await server.raw(post(`Transfer-Encoding: ${value}\r\n`, chunks + hidden), 300);
      t.notMatch(together, /200 OK/, value);
    }
    t.match(
      await inTwo(`GET /v1/things/1 HTTP/1.1\r\n${common}Transfer-Encoding: foo\r\n\r\n${chunks}`, hidden),
      /"param":"Transfer-Encoding"/,
      'the header is refused for every method',
    );
    t.match(await server.raw(post('Transfer-Encoding: Chunked\r\n', chunks), 300), /^HTTP\/1\.1 200 OK\r\n/);
    t.match(
      await server.raw(post('Transfer-Encoding: chunked\r\nContent-Length: 5\r\n', chunks), 300),
      /malformed_http/,
      'the parser refuses Transfer-Encoding together with Content-Length',
    );
    t.same(served, []);
  });

  t.test(
    'headers that a proxy may read differently are refused',
    { skip: onNode ? false : 'uws accepts some' },
    async (t) => {
      const get = (headers: string): string => `GET /v1/hidden HTTP/1.1\r\n${common}${headers}\r\n`;
      for (const headers of [
        ': x\r\n',
        ':\r\n',
        `: x\r\nContent-Length: ${hidden.length}\r\n`,
        'X: a\r\n folded\r\n',
        'X : a\r\n',
        'X: a\rY: b\r\n',
        'X: a\nY: b\r\n',
        'Content-Length: 0\r\nContent-Length: 0\r\n',
        'Content-Length: +0\r\n',
        'Content-Length: 0\r\nTransfer-Encoding: chunked\r\n',
        'Transfer-Encoding: chunked\r\nContent-Length: 0\r\n',
        'Transfer-Encoding:\r\n chunked\r\n',
      ]) {
        const text = await server.raw(get(headers) + hidden, 500);
        t.match(text, /^HTTP\/1\.1 400 Bad Request\r\n.*\r\nConnection: close\r\n/s, JSON.stringify(headers));
        t.match(text, /"code":"(malformed_http|invalid_header)"/);
        t.notMatch(text, /200 OK/);
      }
      for (const line of ['GET /v1/hidden', 'GET /v1/hidden HTTP/0.9', ' GET / HTTP/1.1'])
        t.match(await server.raw(`${line}\r\n${common}\r\n`, 500), /malformed_http/, line);
      t.match(
        await server.raw(`POST /v1/cancel HTTP/1.0\r\n${common}Transfer-Encoding: chunked\r\n\r\n${chunks}`, 500),
        /malformed_http/,
        'an HTTP/1.0 client that sends chunks has framed its request differently',
      );
      t.same(served, []);
    },
  );

  t.test('more than one Host header is refused', async (t) => {
    const text = await server.raw(`GET /v1/hidden HTTP/1.1\r\n${common}Host: 127.0.0.1\r\n\r\n`, 500);
    t.match(text, /^HTTP\/1\.1 400 .*"code":"(invalid_header|malformed_http)"/s);
    t.same(served, []);
  });

  t.test('HTTP/1.0 and absolute-form targets are served', { skip: onNode ? false : 'uws refuses them' }, async (t) => {
    const old = await server.raw(`GET /v1/things/1?a=b HTTP/1.0\r\nAuthorization: Bearer ${server.key}\r\n\r\n`, 500);
    t.match(old, /^HTTP\/1\.1 200 OK\r\n.*\r\nConnection: close\r\n.*\{"id":"1","query":"a=b"\}$/s);
    const kept = `POST /v1/chat/completions HTTP/1.0\r\n${common}Connection: keep-alive\r\nContent-Length: 2\r\n\r\n{}`;
    t.equal((await server.raw(kept, 300)).match(/200 OK/g)?.length, 1);
    const absolute = (target: string, host = 'elsewhere.example'): Promise<string> =>
      server.raw(
        `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${server.key}\r\nConnection: close\r\n\r\n`,
      );
    t.match(await absolute('http://localhost:80/v1/things/1?a=b'), /200 OK.*\{"id":"1","query":"a=b"\}$/s);
    t.match(await absolute('HTTP://127.0.0.1'), /404 .*There is no endpoint at \/\./s);
    t.match(
      await absolute('http://rebound.example/v1/things/1', 'localhost'),
      /400 .*"param":"Host"/s,
      'the host of the target counts, not that of the header',
    );
  });

  t.test('a request that offers HTTP/2 is served with HTTP/1.1', async (t) => {
    const offer = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n';
    const text = await inTwo(
      post(`${offer}Content-Length: 7\r\n`, '{"a":1}'),
      `${hidden.trimEnd()}\r\nConnection: close\r\n\r\n`,
    );
    t.match(text, /^HTTP\/1\.1 200 OK\r\n.*\{"echo":\{"a":1\}\}HTTP\/1\.1 200 OK/s);
    t.same(served.splice(0), ['hidden'], 'the connection serves further requests');
    t.match(await server.raw(`GET /v1/things/1 HTTP/1.1\r\n${common}${offer}\r\n`, 300), /"id":"1"/);
  });

  t.test('a header without a name never smuggles in a second request', async (t) => {
    const body = `{}${hidden}`;
    for (const headers of [
      `: x\r\nContent-Length: ${body.length}\r\n`,
      ': x\r\nTransfer-Encoding: chunked\r\n',
      `:\r\nContent-Length: ${body.length}\r\n`,
    ]) {
      const together = await server.raw(post(headers, body), 1_000);
      t.notMatch(together, /200 OK/, 'if everything is sent in one write, the connection is closed');
      await server.raw(post(headers, body, '/v1/cancel'), 300);
      t.ok(
        served.splice(0).every((name) => name === 'cancel'),
        'no hidden request is served on a route with an optional body',
      );
      const apart = await inTwo(post(headers, ''), hidden);
      if (onNode) {
        t.match(apart, /^HTTP\/1\.1 400 .*\r\nConnection: close\r\n.*"code":"malformed_http"/s);
        continue;
      }
      t.match(
        apart,
        /^HTTP\/1\.1 400 Bad Request\r\n.*\r\nConnection: close\r\n/s,
        'if it is sent in two writes, the error is the last response on the connection',
      );
      t.match(apart, /"code":"invalid_body"/);
      const optional = await inTwo(post(headers, '', '/v1/cancel'), hidden);
      t.match(optional, /^HTTP\/1\.1 200 OK\r\n.*\r\nConnection: close\r\n/s);
      t.equal(served.pop(), 'cancel');
    }
    t.same(served, []);
    t.equal(server.http.inFlight, 0);
  });

  t.test(
    'uws does not refuse a nameless header before a declared body of a GET, as documented in docs/reference/limits.md',
    { skip: onNode ? 'node refuses it' : false },
    async (t) => {
      await server.raw(
        `GET /v1/things/1 HTTP/1.1\r\n${common}: x\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`,
        300,
      );
      t.same(
        served,
        ['hidden'],
        'the hidden request is served; if a new library version refuses it, correct docs/reference/limits.md',
      );
    },
  );

  t.test('Content-Length: 0 keeps the connection open', async (t) => {
    const text = await server.raw(post('Content-Length: 0\r\n', '', '/v1/cancel') + hidden, 300);
    t.equal(text.match(/HTTP\/1\.1 200 OK/g)?.length, 2);
    t.same(served, ['cancel', 'hidden']);
  });

  t.test('pipelined requests are answered in order, or the connection is closed', { skip: !onNode }, async (t) => {
    const thing = (id: number): string => `GET /v1/things/${id} HTTP/1.1\r\n${common}\r\n`;
    const many = Array.from({ length: 12 }, (_, at) => thing(at)).join('');
    const text = await server.raw(many, 500);
    t.same(
      [...text.matchAll(/"id":"(\d+)"/g)].map(([, id]) => Number(id)),
      Array.from({ length: 12 }, (_, at) => at),
    );
    const waiting = post('Content-Length: 2\r\n', '{}', '/v1/wait');
    t.equal(await server.raw(waiting + thing(1).repeat(100), 2_000), '', 'too many requests wait');
    t.equal(held?.aborted, true);
    t.equal(await server.raw(waiting + waiting, 2_000), '', 'a request with a body does not wait');
    t.equal(server.http.inFlight, 0);
  });

  t.test('a chunk extension and a trailer are read, or refused', async (t) => {
    const extension = await server.raw(
      post('Transfer-Encoding: chunked\r\n', '2;a=b\r\n{}\r\n0\r\n\r\n'),
      onNode ? 300 : 8_000,
    );
    if (onNode) t.match(extension, /^HTTP\/1\.1 200 OK\r\n/);
    else {
      t.match(extension, /^HTTP\/1\.1 400 Bad Request\r\n.*\r\nConnection: close\r\n/s);
      t.match(extension, /extensions.*"code":"request_timeout"/s);
    }
    t.match(
      await server.raw(post('Transfer-Encoding: chunked\r\n', '2\r\n{}\r\n0\r\nX: y\r\n\r\n'), 300),
      onNode ? /200 OK/ : /malformed_http/,
    );
    const stopped = await server.raw(post('Transfer-Encoding: chunked\r\n', '2\r\n{}\r\n'), 8_000);
    t.match(stopped, /no data for 0\.4 seconds.*"code":"request_timeout"/s);
    const slow = await new Promise<string>((resolve) => {
      let text = '';
      const socket = connect(server.port, '127.0.0.1', async () => {
        socket.write(post('Transfer-Encoding: chunked\r\n', ''));
        for (const piece of ['{', '"a"', ':', '1', '}']) {
          await sleep(150);
          socket.write(`${piece.length}\r\n${piece}\r\n`);
        }
        socket.end('0\r\n\r\n');
      });
      socket.on('data', (data) => {
        text += data.toString();
      });
      socket.on('close', () => resolve(text));
    });
    t.match(slow, /^HTTP\/1\.1 200 OK\r\n/, 'a body that keeps arriving has no total time limit');
  });

  t.test('after a client half-closes, immediate responses arrive and pending requests are cancelled', async (t) => {
    const half = (request: string): Promise<string> =>
      new Promise((resolve) => {
        let text = '';
        const socket = connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true }, () =>
          socket.end(request),
        );
        socket.on('data', (data) => {
          text += data.toString();
        });
        socket.on('end', () => resolve(text));
      });
    t.match(await half(`GET /v1/things/1 HTTP/1.1\r\n${common}\r\n`), /^HTTP\/1\.1 200 OK\r\n/);
    t.match(await half(post('Content-Length: 2\r\n', '{}')), /^HTTP\/1\.1 200 OK\r\n/);
    t.equal(
      await half(post('Content-Length: 2\r\n', '{}', '/v1/wait')),
      '',
      'a half-close cannot be distinguished from a disconnect',
    );
    t.equal(held?.aborted, true);
  });

  t.test('a Content-Type with bytes that are not text is refused', async (t) => {
    const bytes = Buffer.concat([
      Buffer.from(`POST /v1/chat/completions HTTP/1.1\r\n${common}Content-Type: `),
      Buffer.from([0xff, 0xfe, 0x80]),
      Buffer.from('\r\nContent-Length: 2\r\n\r\n{}'),
    ]);
    t.match(await server.raw(bytes, 300), /^HTTP\/1\.1 400 Bad Request\r\n.*"code":"unsupported_media_type"/s);
  });

  t.test('large sign-on cookies and tracing headers fit the header limit', async (t) => {
    const cookie = (bytes: number): string =>
      `GET /v1/things/1 HTTP/1.1\r\n${common}Cookie: ${'c'.repeat(bytes)}\r\n\r\n`;
    t.match(await server.raw(cookie(15_000), 300), /^HTTP\/1\.1 200 OK\r\n/);
    t.match(await server.raw(cookie(17_000), 300), /headers_too_large/);
    t.equal(
      process.env['UWS_HTTP_MAX_HEADERS_SIZE'],
      undefined,
      "child processes do not inherit the library's environment variable",
    );
  });
});
