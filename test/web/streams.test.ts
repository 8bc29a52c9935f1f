// Tests the page's stream handling without a browser: event parsing, reconnection against a real server, and the sample
// window.
import { createServer } from 'node:http';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'tap';
import { readEvents } from '../../src/dashboard/web/src/live/event-reader.js';
import type { ServerEvent } from '../../src/dashboard/web/src/live/event-reader.js';
import { follow } from '../../src/dashboard/web/src/live/follow.js';
import type { Connection } from '../../src/dashboard/web/src/live/follow.js';
import { Ring } from '../../src/dashboard/web/src/live/ring.js';
import { ofEngine, Samples } from '../../src/dashboard/web/src/live/samples.js';
import type { EngineSample, LiveSample } from '../../src/shared/wire/live.js';
import { eventually } from '../e2e/monolith.js';

const text =
  '\uFEFF: keep-alive\n\nevent: sample\ndata: {"a":1}\n\ndata: é👋\r\ndata:second\r\n\r\ndata\rdata: x\r\r: c\nid: 7\nretry: 5\nevent: nothing\n\ndata: last\n\n';
const wanted: ServerEvent[] = [
  { event: 'sample', data: '{"a":1}' },
  { event: 'message', data: 'é👋\nsecond' },
  { event: 'message', data: '\nx' },
  { event: 'message', data: 'last' },
];

test('events are parsed the same wherever the bytes are split', async (t) => {
  const bytes = Buffer.from(text);
  for (let size = 1; size <= bytes.length; size++) {
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.subarray(at, at + size));
        controller.close();
      },
    });
    const events: ServerEvent[] = [];
    for await (const event of readEvents(body)) events.push(event);
    if (JSON.stringify(events) !== JSON.stringify(wanted)) t.same(events, wanted, `pieces of ${size} bytes`);
  }
  const read = async (text: string): Promise<ServerEvent[]> => {
    const events: ServerEvent[] = [];
    for await (const event of readEvents(new Blob([text]).stream())) events.push(event);
    return events;
  };
  t.same(await read('data: unfinished\n'), [], 'an event without its empty line is dropped');
  await t.rejects(read('x'.repeat(16 * 1024 * 1024 + 1)), { name: 'StreamError' }, 'the size of an event is limited');
});

test('a reader that stops cancels the body; silence is an error, but comments keep the stream open', async (t) => {
  let cancelled = false;
  const endless = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      controller.enqueue(Buffer.from('data: x\n\n'));
    },
    cancel: () => {
      cancelled = true;
    },
  });
  for await (const event of readEvents(endless)) {
    t.equal(event.data, 'x');
    break;
  }
  t.ok(cancelled);

  let timer: NodeJS.Timeout | undefined;
  const commented = new ReadableStream<Uint8Array>({
    start(controller) {
      let left = 5;
      timer = setInterval(() => {
        controller.enqueue(Buffer.from(--left === 0 ? 'data: there\n\n' : ': keep-alive\n\n'));
        if (left === 0) clearInterval(timer);
      }, 30);
    },
  });
  const seen: string[] = [];
  await t.rejects(
    (async () => {
      for await (const { data } of readEvents(commented, { idleMs: 100 })) seen.push(data);
    })(),
    { name: 'StreamError' },
  );
  t.same(seen, ['there'], 'four comments 30 ms apart kept the stream open');
});

test('a lost stream is reopened, and a refusal is final', async (t) => {
  let calls = 0;
  const open: ServerResponse[] = [];
  const server = createServer((_, response) => {
    calls++;
    if (calls === 2) {
      response.writeHead(503, { 'retry-after': '0' }).end('{"error":{"message":"Busy."}}');
      return;
    }
    if (calls === 4) {
      response.writeHead(403, { 'content-type': 'application/json' }).end('{"error":{"message":"Operators only."}}');
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(`event: sample\ndata: ${calls}\n\n`);
    if (calls === 1) setTimeout(() => response.destroy(), 20);
    else open.push(response);
  });
  await new Promise<void>((done) => {
    server.listen(0, '127.0.0.1', done);
  });
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const data: string[] = [];
  const states: string[] = [];
  let last: Connection | undefined;
  const stop = follow({
    open: (signal) => fetch(url, { signal }),
    onEvent: (event) => data.push(event.data),
    onConnection: (connection) => {
      last = connection;
      states.push(connection.state);
    },
    firstPauseMs: 20,
    longestPauseMs: 50,
    idleMs: 1000,
  });
  t.ok(await eventually(() => data.length === 2));
  t.same(data, ['1', '3']);
  t.same(states, ['connecting', 'open', 'waiting', 'connecting', 'waiting', 'connecting', 'open']);
  open[0]!.end();
  t.ok(await eventually(() => last?.state === 'refused'));
  t.match(last, { state: 'refused', status: 403, reason: 'Operators only.' });
  stop();

  const before = calls;
  const end = follow({
    open: (signal) => fetch(url, { signal }),
    onEvent: (event) => data.push(event.data),
    onConnection: () => undefined,
    firstPauseMs: 10,
  });
  t.ok(await eventually(() => calls === before + 1 && open.length === 2));
  const closed = new Promise((done) => open[1]!.once('close', done));
  end();
  await closed;
  t.pass('stopping closes the connection');
});

test('a ring keeps the newest values', (t) => {
  const ring = new Ring<number>(3);
  for (let n = 1; n <= 5; n++) ring.push(n);
  t.same(
    ring.map((n) => n),
    [3, 4, 5],
  );
  t.same([ring.at(0), ring.at(-1), ring.at(3), ring.at(-4), ring.length], [3, 5, undefined, undefined, 3]);
  ring.clear();
  t.same([ring.length, ring.at(-1)], [0, undefined]);
  t.throws(() => new Ring(0), RangeError);
  t.end();
});

const sampleAt = (second: number, running: number | null): LiveSample => ({
  at: new Date(second * 1000).toISOString(),
  requests: 0,
  rejected_429: 0,
  rejected_503: 0,
  errors: 0,
  cancelled: 0,
  in_flight: 0,
  rss_bytes: 0,
  loop_lag_ms: 0,
  http_threads: 1,
  viewers: 1,
  engines: running === null ? [] : [{ model: 'a', running } as EngineSample],
});

test('samples accept a repeated history after a reconnect, gaps, and engines that appear later', (t) => {
  const samples = new Samples(5);
  t.ok(samples.receive({ event: 'history', data: JSON.stringify([sampleAt(1, null), sampleAt(2, 1)]) }));
  t.ok(samples.receive({ event: 'sample', data: JSON.stringify(sampleAt(3, 2)) }));
  t.notOk(
    samples.receive({ event: 'sample', data: JSON.stringify(sampleAt(3, 2)) }),
    'a sample that is already known is ignored',
  );
  t.notOk(samples.receive({ event: 'message', data: 'x' }), 'an unknown event is ignored');
  t.ok(samples.receive({ event: 'history', data: JSON.stringify([sampleAt(2, 1), sampleAt(3, 2), sampleAt(9, 3)]) }));
  t.same(samples.columns([ofEngine('a', ({ running }) => running)]), [
    [1, 2, 3, 4, 9],
    [null, 1, 2, null, 3],
  ]);
  for (let second = 10; second < 14; second++)
    samples.receive({ event: 'sample', data: JSON.stringify(sampleAt(second, second)) });
  t.equal(samples.length, 5);
  t.equal(samples.engines()[0]!.running, 13);

  const paused = samples.copy();
  t.ok(samples.receive({ event: 'sample', data: JSON.stringify(sampleAt(14, 14)) }));
  t.equal(paused.engines()[0]!.running, 13, 'a copy keeps its samples');
  t.same(paused.columns([]), [[9, 10, 11, 12, 13]]);
  t.end();
});
