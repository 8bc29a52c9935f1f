// Tests many streams in one thread, with fake responses that record each write. streaming.test.ts uses real responses.
import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import type { HttpResponse } from 'uWebSockets.js';
import { sseFraming, SseStream } from '../../src/http/event-stream.js';

const nothing = (): void => undefined;

/** `write` may throw; the data that it accepts is recorded in `written`. */
function opened(write: (data: string) => void = nothing, onEnd = nothing): { stream: SseStream; written: string[] } {
  const written: string[] = [];
  const response = {
    cork: (body: () => void) => {
      body();
    },
    write: (data: string) => {
      write(data);
      written.push(data);
      return true;
    },
    end: () => written.push('end'),
  };
  const options = {
    keepaliveMs: 60_000,
    framing: sseFraming(''),
    bufferBytes: 65_536,
    writeHead: () => undefined,
    onEnd,
  };
  return { stream: new SseStream(response as unknown as HttpResponse, options), written };
}

t.test('each stream is written once per tick, in the order of the first events', async (t) => {
  const order: string[] = [];
  const streams = ['a', 'b', 'c'].map((name) => opened(() => order.push(name)));
  for (const data of ['1', '2']) for (const { stream } of [...streams].reverse()) stream.send(data);
  t.same(order, [], 'nothing is written before the tick ends');
  await nextTurn();
  t.same(order, ['c', 'b', 'a']);
  for (const { stream, written } of streams) {
    t.same(written, ['data: 1\n\ndata: 2\n\n']);
    stream.close();
  }
});

t.test('a failed write is an uncaught exception and does not affect other streams', async (t) => {
  const uncaught: unknown[] = [];
  const note = (name: string, ...args: unknown[]) => name === 'uncaughtException' && uncaught.push(args[0]);
  const capture = t.capture(process, 'emit', note);
  const streams = [
    opened(),
    opened(() => {
      throw new Error('broken');
    }),
    opened(),
  ];
  for (const { stream } of streams) stream.send('1');
  await nextTurn();
  capture.restore();
  t.match(uncaught, [{ message: 'broken' }]);
  t.same(
    streams.map(({ written }) => written.length),
    [1, 0, 1],
  );
  for (const { stream } of streams) stream.send('2');
  streams[1]?.stream.close();
  await nextTurn();
  t.same(
    streams.map(({ written }) => written.length),
    [2, 0, 2],
    'later ticks write to the other streams as usual',
  );
  for (const { stream } of streams) stream.close();
});

t.test('a stream may send on another stream during a write', async (t) => {
  const last = opened();
  const first = opened(undefined, () => last.stream.send('from the end'));
  const gone = opened();
  gone.stream.send('never read');
  first.stream.send('1');
  first.stream.end();
  gone.stream.close();
  await nextTurn();
  t.same(first.written, ['data: 1\n\n', 'end']);
  t.same(last.written, ['data: from the end\n\n']);
  t.same(gone.written, [], 'nothing is written for a client that has disconnected');
  last.stream.close();
});

/** A response whose socket is full while `full` is set. */
function slow(bufferBytes = 65_536): {
  stream: SseStream;
  written: string[];
  socket: { full: boolean; drain(): unknown };
} {
  const written: string[] = [];
  let writable: (() => unknown) | null = null;
  const socket = { full: true, drain: () => writable?.() };
  const response = {
    cork: (body: () => void) => {
      body();
    },
    write: (data: string) => {
      written.push(data);
      return !socket.full;
    },
    onWritable: (callback: () => unknown) => {
      writable = callback;
    },
    end: () => written.push('end'),
    close: () => written.push('close'),
  };
  const options = {
    keepaliveMs: 60_000,
    framing: sseFraming(''),
    bufferBytes,
    writeHead: () => undefined,
    onEnd: (dropped: boolean) => {
      written.push(dropped ? 'dropped' : 'ended');
    },
  };
  return { stream: new SseStream(response as unknown as HttpResponse, options), written, socket };
}

t.test('events are queued while the socket is full and written when it drains', async (t) => {
  const { stream, written, socket } = slow();
  stream.send('1');
  await nextTurn();
  stream.send('2');
  stream.send('3');
  await nextTurn();
  t.same(written, ['data: 1\n\n'], 'nothing is written to a full socket');
  t.equal(stream.bufferedBytes, 27, 'bytes buffered by the HTTP library count too');
  t.equal(socket.drain(), true);
  t.same(
    written.splice(0),
    ['data: 1\n\n', 'data: 2\n\ndata: 3\n\n'],
    'the queued events are written immediately and in one write',
  );
  stream.send('4');
  await nextTurn();
  t.same(written, [], 'nothing is written while the socket is full again');
  socket.full = false;
  t.equal(socket.drain(), true);
  t.same(written.splice(0), ['data: 4\n\n']);
  t.equal(stream.bufferedBytes, 0, 'nothing is buffered');
  stream.send('5');
  await nextTurn();
  t.same(written, ['data: 5\n\n'], 'later events are written as usual');
  stream.close();
});

t.test(
  'a comment is written when the socket drains with nothing queued, so that the library flushes its own buffer',
  async (t) => {
    const { stream, written, socket } = slow();
    stream.send('1');
    await nextTurn();
    socket.full = false;
    t.equal(socket.drain(), true);
    t.same(written, ['data: 1\n\n', ':\n']);
    stream.close();
  },
);

t.test('a stream that ended while the socket was full ends with the queued events and no comment', async (t) => {
  for (const last of [
    ['data: 2\n\n', 'end', 'ended'],
    ['end', 'ended'],
  ]) {
    const { stream, written, socket } = slow();
    stream.send('1');
    await nextTurn();
    if (last.length === 3) stream.send('2');
    stream.end();
    await nextTurn();
    t.same(written.splice(0), ['data: 1\n\n']);
    t.equal(socket.drain(), true);
    t.same(written, last);
  }
});

t.test('nothing is written when the socket drains after the stream was closed', async (t) => {
  const { stream, written, socket } = slow();
  stream.send('1');
  await nextTurn();
  stream.close();
  t.equal(socket.drain(), true);
  t.same(written, ['data: 1\n\n']);
});
