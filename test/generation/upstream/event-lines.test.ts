// Tests the parsing of server-sent events with any split, any line ending, and a length limit.
import t from 'tap';
import { EventLines } from '../../../src/generation/upstream/event-lines.js';

const text =
  ': hello\n\nevent: a\ndata: {"x":"ä€😀"}\n\ndata:1\r\ndata: 2\r\n\r\nid: 7\nretry: 5\n\nevent: b\ndata: \n\ndata: last';
// An event without data is ignored.
const expected = [
  ['a', '{"x":"ä€😀"}'],
  [null, '1\n2'],
  [null, 'last'],
];

function read(parts: readonly Buffer[], maxBytes = 1_000): [string | null, string][] {
  const events: [string | null, string][] = [];
  const lines = new EventLines({
    maxBytes,
    tooLong: () => new Error('too long'),
    longReader: () => {
      throw new Error('no event should be too long');
    },
  });
  const take = (): void => {
    for (let event = lines.next(); event !== undefined; event = lines.next())
      events.push([event.name, 'data' in event ? event.data : '']);
  };
  for (const part of parts) {
    lines.push(part);
    part.fill(0); // the socket reuses its memory
    take();
  }
  lines.end();
  take();
  return events;
}

t.test('parses events split at every byte, and into single bytes', async (t) => {
  const bytes = Buffer.from(text);
  for (let at = 0; at <= bytes.length; at++)
    t.same(read([Buffer.from(bytes.subarray(0, at)), Buffer.from(bytes.subarray(at))]), expected, `split at ${at}`);
  t.same(read([...bytes].map((byte) => Buffer.from([byte]))), expected);
});

t.test('refuses a line or an event that is too long', async (t) => {
  const small = (count: number, part: string): Buffer[] => Array.from({ length: count }, () => Buffer.from(part));
  t.throws(() => read(small(101, 'xxxxxxxxxx'), 1_000), /too long/);
  t.throws(() => read(small(200, 'data: xxxxx\n'), 1_000), /too long/);
  t.same(read([...small(90, 'data: x\n'), Buffer.from('\n')], 1_000).length, 1);
});

t.test('skips a byte-order mark before the first event', async (t) => {
  const bytes = Buffer.from('\ufeffdata: 1\n\ndata: \ufeff2\n\n');
  const told = [
    [null, '1'],
    [null, '\ufeff2'],
  ];
  t.same(read([bytes]), told);
  t.same(read([...Buffer.from('\ufeffdata: 1\n\ndata: \ufeff2\n\n')].map((byte) => Buffer.from([byte]))), told);
});
