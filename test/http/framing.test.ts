// Tests where a request ends: bytes that a proxy in front would see as part of a body must never be treated as a
// request.
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { Exchange, Route } from '../../src/http/exchange.js';
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
    'a nameless header before a declared body of a GET is not refused, as documented in docs/reference/limits.md',
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

  t.test('an endless chunk extension times out, and a trailer is refused immediately', async (t) => {
    const extension = await server.raw(post('Transfer-Encoding: chunked\r\n', '2;a=b\r\n{}\r\n0\r\n\r\n'), 8_000);
    t.match(extension, /^HTTP\/1\.1 400 Bad Request\r\n.*\r\nConnection: close\r\n/s);
    t.match(extension, /extensions.*"code":"request_timeout"/s);
    t.match(
      await server.raw(post('Transfer-Encoding: chunked\r\n', '2\r\n{}\r\n0\r\nX: y\r\n\r\n'), 300),
      /malformed_http/,
    );
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
