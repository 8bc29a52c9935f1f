// Many streams of one thread, over responses that only note what is written: streaming.test.ts has the real ones.
import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import type { HttpResponse } from 'uWebSockets.js';
import { SseStream } from '../../src/http/event-stream.js';

const nothing = (): void => undefined;

/** `write` may throw; what it takes is noted in `written`. */
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
  const options = { keepaliveMs: 60_000, keepalive: '', bufferBytes: 65_536, writeHead: () => undefined, onEnd };
  return { stream: new SseStream(response as unknown as HttpResponse, options), written };
}

t.test('each stream is written once for what a tick has sent, in the order of the first events', async (t) => {
  const order: string[] = [];
  const streams = ['a', 'b', 'c'].map((name) => opened(() => order.push(name)));
  for (const data of ['1', '2']) for (const { stream } of [...streams].reverse()) stream.send(data);
  t.same(order, [], 'nothing leaves before the tick ends');
  await nextTurn();
  t.same(order, ['c', 'b', 'a']);
  for (const { stream, written } of streams) {
    t.same(written, ['data: 1\n\ndata: 2\n\n']);
    stream.close();
  }
});

t.test('what cannot be written is an uncaught exception and no loss to others', async (t) => {
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
    'and later ticks are as ever',
  );
  for (const { stream } of streams) stream.close();
});

t.test('one stream may send on another while it is written', async (t) => {
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
  t.same(gone.written, [], 'its client had left');
  last.stream.close();
});

/** A response whose socket is full as long as `full` says so. */
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
    keepalive: '',
    bufferBytes,
    writeHead: () => undefined,
    onEnd: (dropped: boolean) => {
      written.push(dropped ? 'dropped' : 'ended');
    },
  };
  return { stream: new SseStream(response as unknown as HttpResponse, options), written, socket };
}

t.test('a full socket: what comes meanwhile is written when it takes bytes again', async (t) => {
  const { stream, written, socket } = slow();
  stream.send('1');
  await nextTurn();
  stream.send('2');
  stream.send('3');
  await nextTurn();
  t.same(written, ['data: 1\n\n'], 'nothing is written to a full socket');
  t.equal(stream.bufferedBytes, 27, 'what the library holds counts');
  t.equal(socket.drain(), true);
  t.same(written.splice(0), ['data: 1\n\n', 'data: 2\n\ndata: 3\n\n'], 'at once, in one piece, and nothing else');
  stream.send('4');
  await nextTurn();
  t.same(written, [], 'full again');
  socket.full = false;
  t.equal(socket.drain(), true);
  t.same(written.splice(0), ['data: 4\n\n']);
  t.equal(stream.bufferedBytes, 0, 'nothing is held');
  stream.send('5');
  await nextTurn();
  t.same(written, ['data: 5\n\n'], 'it is written as before');
  stream.close();
});

t.test(
  'a socket that takes bytes again while nothing waits is written a comment: the library sends its own rest along with it',
  async (t) => {
    const { stream, written, socket } = slow();
    stream.send('1');
    await nextTurn();
    socket.full = false;
    t.equal(socket.drain(), true);
    t.same(written, ['data: 1\n\n', ':\n\n']);
    stream.close();
  },
);

t.test('a stream that has ended meanwhile ends with what waits, and without a comment', async (t) => {
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

t.test('a socket that takes bytes after its stream was closed is written nothing', async (t) => {
  const { stream, written, socket } = slow();
  stream.send('1');
  await nextTurn();
  stream.close();
  t.equal(socket.drain(), true);
  t.same(written, ['data: 1\n\n']);
});
