import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { apiError } from '../../src/shared/errors.js';
import type { EventStream, Exchange, Route } from '../../src/http/exchange.js';
import { eventually } from '../e2e/monolith.js';
import { onNode } from '../support/http-server.js';
import { startRoutes, type Settings } from './running-server.js';
import type { RunningServer } from './running-server.js';

type Serve = (exchange: Exchange) => void | Promise<void>;

/** Starts a server whose chat and messages routes run the current test's handler. */
async function scripted(settings: Settings = {}): Promise<{ server: RunningServer; play(serve: Serve): void }> {
  let current: Serve = () => undefined;
  const route = (path: string): Route => ({
    method: 'POST',
    path,
    scope: 'inference',
    handler: (exchange) => current(exchange),
  });
  const server = await startRoutes(
    [route('/v1/chat/completions'), route('/v1/messages'), route('/api/chat')],
    settings,
  );
  return {
    server,
    play: (serve) => {
      current = serve;
    },
  };
}

function request(server: RunningServer, path = '/v1/chat/completions'): string {
  return `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.key}\r\nContent-Length: 2\r\n\r\n{}`;
}

/** Makes the server close the connection at the end of the response. */
const closing = (request: string): string => request.replace('Content-Length', 'Connection: close\r\nContent-Length');

/** Returns the payload of a chunked response. */
function unchunk(text: string): string[] {
  let rest = text.slice(text.indexOf('\r\n\r\n') + 4);
  const pieces: string[] = [];
  for (;;) {
    const size = Number.parseInt(rest, 16);
    const at = rest.indexOf('\r\n') + 2;
    if (!(size > 0)) return pieces;
    pieces.push(rest.slice(at, at + size));
    rest = rest.slice(at + size + 2);
  }
}

t.test('responses are streamed as server-sent events', async (t) => {
  const { server, play } = await scripted({ http: { keepalive_ms: 100 } });
  t.teardown(() => server.close());

  t.test('responses have the right framing and headers, and the events of one tick are written together', async (t) => {
    play(async (exchange) => {
      const stream = exchange.sse();
      stream.send('{"a":1}');
      stream.send('{"a":2}', 'named');
      t.equal(stream.started, false, 'nothing is written before the tick ends');
      await nextTurn();
      t.equal(stream.started, true);
      stream.send('{"a":"é"}');
      stream.send('[DONE]');
      stream.end();
      stream.send('late');
    });
    const text = await server.raw(closing(request(server)), 3_000);
    t.match(text, /^HTTP\/1.1 200 OK\r\n/);
    for (const header of [
      'Content-Type: text/event-stream; charset=utf-8',
      'Cache-Control: no-cache, no-transform',
      `Connection: ${onNode ? 'close' : 'keep-alive'}`,
      'X-Accel-Buffering: no',
    ]) {
      t.match(text, `\r\n${header}\r\n`);
    }
    const pieces = unchunk(text);
    t.equal(pieces[0], 'data: {"a":1}\n\nevent: named\ndata: {"a":2}\n\n');
    t.equal(Buffer.from(pieces.slice(1).join(''), 'latin1').toString(), 'data: {"a":"é"}\n\ndata: [DONE]\n\n');
  });

  t.test('keep-alives are sent on a timer, in the format of each API', async (t) => {
    play(async (exchange) => {
      const stream = exchange.sse();
      await sleep(350);
      stream.end();
    });
    t.match(unchunk(await server.raw(closing(request(server)), 1500)).join(''), /^(: keep-alive\n){1,3}$/);
    t.match(
      unchunk(await server.raw(closing(request(server, '/v1/messages')), 1500)).join(''),
      /^(event: ping\ndata: {"type":"ping"}\n\n){1,3}$/,
    );
  });

  t.test('a failure before the first event is a plain error status with its headers', async (t) => {
    play(async (exchange) => {
      exchange.sse();
      await nextTurn();
      exchange.fail(apiError('capacity_exhausted', 'The queue is full.', null, { retryAfterMs: 2500 }));
    });
    const response = await server.post('/v1/chat/completions', {});
    t.equal(response.status, 503);
    t.equal(response.headers.get('retry-after'), '3');
    t.equal(response.headers.get('retry-after-ms'), '2500');
    t.same(await response.json(), {
      error: { message: 'The queue is full.', type: 'service_unavailable', param: null, code: 'capacity_exhausted' },
    });
  });

  t.test('a failure after the first event is sent in the stream', async (t) => {
    play(async (exchange) => {
      exchange.sse().send('{}');
      await nextTurn();
      throw apiError('model_error', 'The model failed.');
    });
    const chat = await (await server.post('/v1/chat/completions', {})).text();
    t.equal(
      chat,
      'data: {}\n\ndata: {"error":{"message":"The model failed.","type":"internal_error","param":null,"code":"model_error"}}\n\ndata: [DONE]\n\n',
    );
    const response = await server.post('/v1/messages', {});
    const messages = await response.text();
    const event = /^data: {}\n\nevent: error\ndata: (.*)\n\n$/.exec(messages)?.[1] ?? 'null';
    t.match(JSON.parse(event), {
      type: 'error',
      error: { code: 'model_error', details: { error_code: 'model_error' } },
      request_id: response.headers.get('request-id'),
    });
  });

  t.test('an unexpected exception reveals no internals', async (t) => {
    play(() => {
      throw new Error('inside');
    });
    const response = await server.post('/v1/chat/completions', {});
    t.equal(response.status, 500);
    const text = await response.text();
    t.match(text, /internal_error/);
    t.notMatch(text, /inside/);
    t.match(server.logs.join(''), /inside/, 'the log contains the exception');
  });
});

t.test('a request is aborted when its client disconnects', async (t) => {
  const { server, play } = await scripted();
  t.teardown(() => server.close());
  for (const kind of ['stream', 'whole answer'] as const) {
    let aborted = 0;
    let late: Exchange | undefined;
    const arrived = new Promise<void>((resolve) =>
      play((exchange) => {
        late = exchange;
        exchange.onAborted(() => aborted++);
        if (kind === 'stream') exchange.sse().send('{}');
        resolve();
      }),
    );
    const socket = connect(server.port, '127.0.0.1');
    socket.write(request(server));
    await arrived;
    socket.destroy();
    await eventually(() => aborted > 0);
    t.equal(aborted, 1, kind);
    t.equal(late?.aborted, true);
    late?.json(200, {});
    late?.fail(new Error('late'));
    t.equal(server.http.inFlight, 0);
  }
});

t.test('slow stream readers are dropped when their buffer is full', async (t) => {
  const { server, play } = await scripted({ http: { stream_buffer_bytes: 65_536 } });
  t.teardown(() => server.close());
  const event = JSON.stringify({ text: 'x'.repeat(16_000) });

  function paused(): Promise<Socket> {
    const socket = connect(server.port, '127.0.0.1');
    socket.pause();
    return new Promise((resolve) => socket.write(request(server), () => resolve(socket)));
  }

  t.test('the connection is dropped when its buffer exceeds the limit', async (t) => {
    let most = 0;
    let sent = 0;
    const aborted = new Promise<void>((resolve) =>
      play(async (exchange) => {
        exchange.onAborted(resolve);
        const stream: EventStream = exchange.sse();
        for (sent = 0; sent < 5000 && !exchange.aborted; sent++) {
          stream.send(event);
          most = Math.max(most, stream.bufferedBytes);
          await nextTurn();
        }
      }),
    );
    const socket = await paused();
    await aborted;
    t.ok(sent < 5000, 'the connection was dropped before everything was written');
    t.ok(most <= 2 * 65_536 + 3 * event.length, `at most ${most} bytes were buffered`);
    socket.destroy();
  });

  t.test('a stream is not dropped for one event above the limit', async (t) => {
    play(async (exchange) => {
      const stream = exchange.sse();
      stream.send(JSON.stringify('z'.repeat(20_000_000)));
      await nextTurn();
      t.ok(stream.bufferedBytes > 65_536, 'the large event is buffered');
      stream.send('{"after":1}');
      stream.end();
    });
    const text = await (await server.post('/v1/chat/completions', {})).text();
    t.equal(text.length, 20_000_000 + 'data: ""\n\ndata: {"after":1}\n\n'.length);
  });

  t.test('a reader that catches up receives everything in order', async (t) => {
    let sent = 0;
    let blocked = false;
    play(async (exchange) => {
      const stream = exchange.sse();
      for (; sent < 2000 && !exchange.aborted; sent++) {
        while (stream.bufferedBytes > 32_768) {
          blocked = true;
          await sleep(1);
        }
        stream.send(`{"n":${sent},"text":"${'y'.repeat(8000)}"}`);
        await nextTurn();
      }
      stream.end();
    });
    const socket = await paused();
    t.ok(await eventually(() => blocked), 'the socket filled up');
    const text = await new Promise<string>((resolve) => {
      const pieces: Buffer[] = [];
      socket.on('data', (data) => {
        pieces.push(data);
        if (data.toString('latin1').endsWith('0\r\n\r\n')) socket.destroy();
      });
      socket.on('close', () => resolve(Buffer.concat(pieces).toString('latin1')));
      socket.resume();
    });
    const numbers = unchunk(text)
      .join('')
      .split('\n\n')
      .filter((one) => one.startsWith('data: '))
      .map((one) => (JSON.parse(one.slice(6)) as { n: number }).n);
    t.same(
      numbers,
      Array.from({ length: 2000 }, (_, i) => i),
    );
  });
});

t.test('JSON lines have a space as keep-alive, and an error as the last line', async (t) => {
  const { server, play } = await scripted({ http: { keepalive_ms: 100 } });
  t.teardown(() => server.close());
  play(async (exchange) => {
    const stream = exchange.lines();
    await sleep(250);
    stream.send('{"a":1}');
    await nextTurn();
    exchange.fail(apiError('model_error', 'It failed.'));
    stream.send('late');
  });
  const text = await server.raw(closing(request(server, '/api/chat')), 3_000);
  t.match(text, /^HTTP\/1.1 200 OK\r\n/);
  t.match(text, '\r\nContent-Type: application/x-ndjson\r\n');
  const body = unchunk(text).join('');
  t.match(body, /^ +\{"a":1\}\n\{"error":"It failed\."\}\n$/);
  for (const line of body.split('\n').slice(0, -1)) t.equal(typeof JSON.parse(line), 'object', 'every line parses');

  play((exchange) => {
    exchange.lines();
    throw apiError('capacity_exhausted', 'Busy.');
  });
  const refused = await server.post('/api/chat', {});
  t.equal(refused.status, 503, 'an error before the first line has its own status');
  t.same(await refused.json(), { error: 'Busy.' });
});

t.test('a client that does not read JSON lines is disconnected at the limit', async (t) => {
  const { server, play } = await scripted({ http: { stream_buffer_bytes: 65_536 } });
  t.teardown(() => server.close());
  let sent = 0;
  let most = 0;
  let gone = false;
  play(async (exchange) => {
    exchange.onAborted(() => {
      gone = true;
    });
    const stream = exchange.lines();
    const line = JSON.stringify({ text: 'x'.repeat(16_000) });
    for (; !gone && sent < 100_000; sent++) {
      stream.send(line);
      most = Math.max(most, stream.bufferedBytes);
      await nextTurn();
    }
  });
  const socket = connect(server.port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  socket.pause();
  socket.write(request(server, '/api/chat'));
  t.ok(await eventually(() => gone), 'disconnected');
  t.ok(most < 262_144, `${most} bytes were buffered`);
});
