import { createConnection } from 'node:net';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { onNode } from '../support/http-server.js';
import { loadUws } from '../../src/http/uws.js';
import { withJsonPages } from '../../src/http/uws-pages.js';
import { echoRoutes, errorOf, startRoutes } from './running-server.js';

t.test('requests and responses follow the HTTP rules', async (t) => {
  const server = await startRoutes(echoRoutes, { http: { max_body_bytes: 4096 } });
  t.teardown(() => server.close());

  t.test('every response has the request id in two headers, the release, and CORS headers', async (t) => {
    for (const response of [
      await server.post('/v1/chat/completions', {}),
      await server.fetch('/nothing'),
      await fetch(`${server.url}/v1/things/1`),
      await fetch(`${server.url}/v1/things/1`, { method: 'OPTIONS' }),
    ]) {
      t.match(response.headers.get('x-request-id'), /^req_[0-9A-Za-z]{24}$/);
      t.equal(response.headers.get('request-id'), response.headers.get('x-request-id'));
      t.match(response.headers.get('x-service-version'), /^\d+\.\d+\.\d+/);
      t.equal(response.headers.get('access-control-allow-origin'), '*');
      t.equal(response.headers.get('access-control-expose-headers'), '*');
      t.notOk(response.headers.get('access-control-allow-credentials'));
      t.notOk(response.headers.get('uwebsockets'));
      await response.text();
    }
  });

  t.test('an unknown path gets 404', async (t) => {
    const response = await server.fetch('/v1/nothing');
    t.equal(response.status, 404);
    t.equal(response.headers.get('content-type'), 'application/json; charset=utf-8');
    t.match(await errorOf(response), { type: 'not_found_error', code: 'unknown_endpoint', param: null });
    t.match(
      (await errorOf(await server.post('/chat/completions', {}))).message,
      /Did you mean \/v1\/chat\/completions/,
    );
    t.equal((await server.fetch('/v1/things/')).status, 404, 'a parameter must not be empty');
    t.equal((await server.fetch('/v1/things/%zz')).status, 404, 'an invalid escape matches no route');
  });

  t.test('one trailing slash, escapes and queries are accepted', async (t) => {
    t.equal((await server.post('/v1/chat/completions/', {})).status, 200);
    t.equal((await server.post('/v1/chat/completions//', {})).status, 404);
    t.same(await (await server.fetch('/v1/things/a%2Fb?beta=true')).json(), { id: 'a/b', query: 'beta=true' });
  });

  t.test('a wrong method gets 404 with Allow', async (t) => {
    for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
      const response = await server.fetch('/v1/chat/completions', { method });
      t.equal(response.status, 404);
      t.equal(response.headers.get('allow'), 'POST, OPTIONS');
      t.equal((await errorOf(response)).code, 'method_not_allowed');
    }
    t.equal((await server.post('/v1/things/1', {})).headers.get('allow'), 'GET, HEAD, OPTIONS');
  });

  t.test('a long method is shortened in the error and the log', async (t) => {
    const answer = await server.raw(
      `${'X'.repeat(8_000)} /v1/things/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n`,
      500,
    );
    t.ok(answer.length < 1_000, `${answer.length} bytes`);
    if (onNode) {
      t.match(answer, /Invalid method encountered.*"code":"malformed_http"/);
      return;
    }
    t.match(answer, /"code":"method_not_allowed"/);
    t.match(answer, / does not support X{17}[^X]/);
    const log = server.logs.find((line) => line.includes('XXXXX')) ?? '';
    t.ok(log.length > 0 && log.length < 1_000, `${log.length} characters were logged`);
  });

  t.test('HEAD returns the headers of GET without the body, and an empty 404 for other routes', async (t) => {
    const got = await server.fetch('/v1/things/1');
    const length = (await got.text()).length;
    const head = await server.raw(
      `HEAD /v1/things/1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.key}\r\n\r\n`,
      200,
    );
    t.match(head, /^HTTP\/1.1 200 OK\r\n/);
    t.match(head, new RegExp(`\r\nContent-Length: ${length}\r\n`, 'i'));
    t.ok(head.endsWith('\r\n\r\n'));
    const two = await server.raw(
      `HEAD /v1/things/1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.key}\r\n\r\n`.repeat(2),
      500,
    );
    t.equal(two.match(/HTTP\/1\.1 200 OK/g)?.length ?? 0, 2, 'the connection stays open');
    const post = await server.raw('HEAD /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n\r\n', 200);
    t.match(post, /^HTTP\/1.1 404 /);
    t.ok(post.endsWith('\r\n\r\n'));
  });

  t.test('a CORS preflight needs no key and echoes the requested headers', async (t) => {
    const response = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'OPTIONS',
      headers: { origin: 'http://a.example', 'access-control-request-headers': 'authorization, x-custom' },
    });
    t.equal(response.status, 204);
    t.equal(response.headers.get('allow'), 'POST, OPTIONS');
    t.equal(response.headers.get('access-control-allow-methods'), 'POST, OPTIONS');
    t.equal(response.headers.get('access-control-allow-headers'), 'authorization, x-custom');
    t.equal(response.headers.get('access-control-max-age'), '7200');
    t.equal((await fetch(`${server.url}/anything`, { method: 'OPTIONS' })).status, 204);
  });

  t.test('media types and encodings are checked', async (t) => {
    t.equal(
      (await server.post('/v1/chat/completions', {}, { 'content-type': 'Application/JSON; charset=x' })).status,
      200,
    );
    const missing = await server.raw(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: bearer ${server.key}\r\nContent-Length: 2\r\n\r\n{}`,
      200,
    );
    t.match(missing, /^HTTP\/1.1 200 /, 'a missing Content-Type is treated as JSON');
    for (const type of ['application/x-www-form-urlencoded', 'text/plain']) {
      const response = await server.post('/v1/chat/completions', '{}', { 'content-type': type });
      t.equal(response.status, 400);
      t.equal((await errorOf(response)).code, 'unsupported_media_type');
    }
    t.equal(
      (await errorOf(await server.post('/v1/chat/completions', '{}', { 'content-encoding': 'br' }))).code,
      'unsupported_media_type',
    );
    const gzip = await server.fetch('/v1/chat/completions', {
      method: 'POST',
      body: gzipSync('{"a":1}'),
      headers: { 'content-encoding': 'gzip' },
    });
    t.same(await gzip.json(), { echo: { a: 1 } });
    t.equal(
      (await errorOf(await server.post('/v1/chat/completions', '{}', { 'content-encoding': 'gzip' }))).code,
      'invalid_json',
    );
  });

  t.test('a body that is not a JSON object is refused', async (t) => {
    const deep = (levels: number): string => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;
    for (const [body, code] of [
      ['', 'invalid_body'],
      [' ', 'invalid_body'],
      ['[]', 'invalid_body'],
      ['null', 'invalid_body'],
      ['1', 'invalid_body'],
      ['{', 'invalid_json'],
      ['{"a":1e999}', 'invalid_json'],
      ['{"a":NaN}', 'invalid_json'],
      [deep(513), 'invalid_json'],
    ] as const) {
      const response = await server.post('/v1/chat/completions', body);
      t.equal(response.status, 400, body.slice(0, 20));
      t.match(await errorOf(response), { type: 'invalid_request_error', code, param: null }, body.slice(0, 20));
    }
    t.equal((await server.post('/v1/chat/completions', deep(512))).status, 200, '512 levels are allowed');
    const bytes = await server.fetch('/v1/chat/completions', {
      method: 'POST',
      body: new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]),
    });
    t.equal((await errorOf(bytes)).code, 'invalid_json', 'a body that is not UTF-8 is refused');
    t.same(
      await (await server.post('/v1/chat/completions', '\ufeff{"a":1,"a":2}')).json(),
      { echo: { a: 2 } },
      'a byte-order mark is skipped, and the last duplicate wins',
    );
    const secret = await errorOf(await server.post('/v1/chat/completions', '{"content": "the secret", oops'));
    t.notMatch(secret.message, /secret/, 'the message quotes no part of the body');
  });

  t.test('a body over the limit gets 413 and the connection is closed', async (t) => {
    const fits = `{"a":"${'x'.repeat(4096 - 8)}"}`;
    t.equal(fits.length, 4096);
    t.equal((await server.post('/v1/chat/completions', fits)).status, 200);
    const declared = await server.post('/v1/chat/completions', `${fits} `);
    t.equal(declared.status, 413);
    t.equal(declared.headers.get('connection'), 'close');
    t.match(await errorOf(declared), { type: 'request_too_large', code: 'request_too_large' });

    const stream = new ReadableStream({
      start(controller) {
        for (let i = 0; i < 5; i++) controller.enqueue(new TextEncoder().encode('x'.repeat(1024)));
        controller.close();
      },
    });
    const chunked = await server.fetch('/v1/chat/completions', {
      method: 'POST',
      body: stream,
      duplex: 'half',
    } as RequestInit);
    t.equal(chunked.status, 413, 'a chunked body without Content-Length is limited too');

    const bomb = gzipSync(`{"a":"${'x'.repeat(1_000_000)}"}`);
    t.ok(bomb.length < 4096);
    t.equal(
      (
        await server.fetch('/v1/chat/completions', {
          method: 'POST',
          body: bomb,
          headers: { 'content-encoding': 'gzip' },
        })
      ).status,
      413,
      'a body that is too large after decompression is refused',
    );

    const endless = await new Promise<string>((resolve) => {
      const socket = createConnection(server.port, '127.0.0.1');
      let text = '';
      socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.key}\r\nTransfer-Encoding: chunked\r\n\r\n`,
      );
      const timer = setInterval(() => socket.write(`400\r\n${'x'.repeat(1024)}\r\n`), 1);
      socket.on('data', (data) => {
        text += data.toString();
      });
      socket.on('error', () => undefined);
      socket.on('close', () => {
        clearInterval(timer);
        resolve(text);
      });
    });
    t.match(endless, /^HTTP\/1.1 413 /, 'a client that never stops sending gets the error and is disconnected');
  });

  t.test(
    'two different Content-Length values are refused, so that no request hides after the shorter body',
    async (t) => {
      const hidden = 'GET /v1/things/hidden HTTP/1.1\r\nHost: localhost\r\n\r\n';
      const post = (first: number, second: number, body: string): string =>
        `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.key}\r\nContent-Length: ${first}\r\nContent-Length: ${second}\r\n\r\n${body}`;
      const refused = await server.raw(post(2, 3, '{}'), 1000);
      t.match(refused, /^HTTP\/1\.1 400 Bad Request\r\n/);
      t.match(refused, /\r\nConnection: close\r\n/);
      t.match(refused, /"param":"Content-Length","code":"invalid_header"/);
      const began = performance.now();
      for (const [first, second] of [
        [2, 2 + hidden.length],
        [2 + hidden.length, 2],
      ] as const) {
        const text = await server.raw(post(first, second, `{}${hidden}`), 60_000);
        t.notMatch(text, /missing_api_key|200 OK/, 'the rest is not treated as a request');
      }
      t.ok(performance.now() - began < 60_000, "the connection is closed before the test's own timeout");
      t.match(
        await server.raw(post(2, 2, '{}'), 200),
        onNode ? /"param":"Content-Length","code":"invalid_header"/ : /^HTTP\/1\.1 200 OK\r\n/,
        'the same length given twice counts as one, or is refused as well',
      );
      t.equal(server.http.inFlight, 0);
    },
  );

  t.test('malformed requests get a JSON error', async (t) => {
    if (!onNode) t.equal(loadUws(0).patched, true);
    for (const [bytes, code] of [
      [`GET / HTTP/${onNode ? '1.2' : '1.0'}\r\n\r\n`, 'malformed_http'],
      ['\u0016\u0003\u0001\u0002\u0000\u0001\r\n\r\n', 'malformed_http'],
      ['POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n', 'malformed_http'],
      ['POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -2\r\n\r\n{}', 'malformed_http'],
      [`GET / HTTP/1.1\r\n${'X: a\r\n'.repeat(99)}\r\n`, 'headers_too_large'],
      [`GET / HTTP/1.1\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`, 'headers_too_large'],
    ] as const) {
      const text = await server.raw(bytes, 500);
      t.match(text, /^HTTP\/1\.1 400 Bad Request\r\nContent-Type: application\/json; charset=utf-8\r\n/, code);
      t.match(JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4)), {
        error: { message: /./, type: 'invalid_request_error', param: null, code },
      });
    }
    const garbage = await server.raw('garbage\r\n\r\n', 500);
    if (onNode) t.match(garbage, /malformed_http/);
    else t.equal(garbage, '', 'an incomplete request line gets no response');
    t.match(
      await server.raw('CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n', 500),
      onNode ? /malformed_http/ : /^HTTP\/1\.1 4/,
    );
    t.equal((await server.fetch('/healthz')).status, 200, 'the server keeps serving');
  });
});

t.test('the Host header is checked on a loopback address', async (t) => {
  const server = await startRoutes(echoRoutes, { http: { allowed_hosts: ['models.example'] } });
  t.teardown(() => server.close());
  const status = async (host: string): Promise<string> =>
    (await server.raw(`GET /healthz HTTP/1.1\r\nHost: ${host}\r\n\r\n`, 150)).slice(9, 12);
  for (const host of [
    'localhost',
    `127.0.0.1:${server.port}`,
    '[::1]:80',
    'a.localhost',
    'models.example:80',
    '192.168.1.7',
  ])
    t.equal(await status(host), '200', host);
  for (const host of ['evil.example', 'localhost.evil.example', 'models.example.evil'])
    t.equal(await status(host), '400', host);
});

t.test('only listed CORS origins are allowed', async (t) => {
  const server = await startRoutes(echoRoutes, { http: { cors_origins: ['http://a.example'] } });
  t.teardown(() => server.close());
  const yes = await fetch(`${server.url}/healthz`, { headers: { origin: 'http://a.example' } });
  t.equal(yes.headers.get('access-control-allow-origin'), 'http://a.example');
  t.equal(yes.headers.get('vary'), 'Origin');
  const no = await fetch(`${server.url}/healthz`, { headers: { origin: 'http://b.example' } });
  t.equal(no.headers.get('access-control-allow-origin'), null);
});

t.test('an unknown binary is not patched', (t) => {
  t.equal(withJsonPages(Buffer.from('HTTP/1.1 505 HTTP Version Not Supported\r\n')), null);
  t.equal(withJsonPages(Buffer.alloc(1000)), null);
  t.end();
});
