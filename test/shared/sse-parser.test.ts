// Tests the parser for server-sent events: splits, line endings, fields, limits and long events.
import t from 'tap';
import { SseParser, type SseOptions } from '../../src/shared/sse-parser.js';
import { utf8Chunks } from '../../src/shared/utf8-chunks.js';

type Seen = [event: string, data: string, id?: string];

const text =
  '\ufeff: comment\n\nevent: a\nid: 7\ndata: {"x":"ä€😀"}\n\ndata:1\r\ndata:  2\r\n\r\nid\nretry: 5\n\nevent: b\ndata\ndata: x\r\r' +
  'data:a\r\n\revent\ndata:\n\ndatabase: y\ndata: \ufeffz: 😀\n\n';
const expected: Seen[] = [
  ['a', '{"x":"ä€😀"}', '7'],
  ['', '1\n 2'],
  ['b', '\nx'],
  ['', 'a'],
  ['', ''],
  ['', '\ufeffz: 😀'],
];

function read(
  parts: readonly (Uint8Array | string)[],
  options: Partial<SseOptions> = {},
  atEnd?: 'lines' | 'all',
): Seen[] {
  const seen: Seen[] = [];
  const parser = new SseParser({
    maxLength: 1_000,
    tooLong: () => new Error('too long'),
    onEvent: ({ event, data, id }) => seen.push(id === undefined ? [event, data] : [event, data, id]),
    ...options,
  });
  for (const part of parts) {
    parser.push(part);
    if (typeof part !== 'string') part.fill(0); // the caller may reuse the memory
  }
  if (atEnd !== undefined) parser.end(atEnd === 'all');
  return seen;
}

const cut = <T extends Uint8Array | string>(whole: T, size: number): T[] => {
  const parts: T[] = [];
  for (let at = 0; at < whole.length; at += size) parts.push(whole.slice(at, at + size) as T);
  return parts;
};

t.test('gives the same events regardless of how the bytes or the text are split', async (t) => {
  const bytes = new TextEncoder().encode(text);
  for (let size = 1; size <= bytes.length; size++) {
    t.same(read(cut(bytes, size)), expected, `TextDecoder, ${size} bytes`);
    t.same(read(cut(bytes, size), { decode: utf8Chunks() }), expected, `utf8Chunks, ${size} bytes`);
    t.same(read(cut(text, size)), expected, `text, ${size} units`);
  }
  for (let at = 0; at <= text.length; at++)
    t.same(read([text.slice(0, at), '', text.slice(at)]), expected, `text split at ${at}`);
});

t.test('treats CR, LF and CRLF alike, and reports an event as soon as its empty line arrives', async (t) => {
  const lines = 'event: a\ndata: 1\ndata: 2\n\n: c\ndata: 3\n\ndata: 4\n\n';
  for (const end of ['\n', '\r', '\r\n']) {
    const whole = lines.replaceAll('\n', end);
    for (let size = 1; size <= whole.length; size++)
      t.same(
        read(cut(whole, size)),
        [
          ['a', '1\n2'],
          ['', '3'],
          ['', '4'],
        ],
        `${JSON.stringify(end)}, ${size} units`,
      );
  }
  t.same(read(['data: 1\r\r']), [['', '1']]);
  t.same(read(['data: 1\r\n\r']), [['', '1']], 'the event is reported without waiting for the rest of a CRLF');
});

t.test('the end of the stream drops an event, or reports its lines, or the last line too', async (t) => {
  t.same(read(['data: 1\n']), []);
  t.same(read(['data: 1\n'], {}, 'lines'), [['', '1']]);
  t.same(read(['data: 1\ndata: 2'], {}, 'lines'), [['', '1']]);
  t.same(read(['data: 1\ndata: 2 '], {}, 'all'), [['', '1\n2']]);
  t.same(read(['data: 1\n\n'], {}, 'all'), [['', '1']]);
  t.same(read([], {}, 'all'), []);
});

t.test('limits the length of an event, not of the stream', async (t) => {
  const times = (count: number, part: string): string[] => Array.from({ length: count }, () => part);
  t.throws(() => read(times(101, 'xxxxxxxxxx')), /too long/, 'a line without an end');
  t.throws(() => read(times(200, 'data: xxxxx\n')), /too long/, 'many data lines');
  t.throws(() => read([`data: ${'x'.repeat(1_001)}\n\n`]), /too long/, 'one data line');
  t.throws(() => read([...times(90, 'data: xxxxx\n'), ':'.repeat(600)]), /too long/, 'data and an unfinished line');
  t.equal(read([`data: ${'x'.repeat(1_000)}\n\n`]).length, 1);
  t.equal(read(times(1_000, 'data: xxxxx\n\n')).length, 1_000);
  t.same(read(times(1_000, ': comment\n')), []);
});

t.test('passes the data of a long event on while it arrives', async (t) => {
  const log: string[] = [];
  const long = {
    over: 10,
    open: () => {
      let data = '';
      return { text: (part: string) => (data += part), end: (event: string) => log.push(`${event}:${data}`) };
    },
  };
  const parse = (whole: string, size: number, maxLength = 1_000): [Seen[], string[]] => {
    log.length = 0;
    return [read(cut(whole, size), { long, maxLength }), [...log]];
  };
  const comment = `: ${'c'.repeat(50)}\n`;
  const whole = `event: a\ndata: 123456789 ä€😀 123456789\n${comment}data: x\n\n${comment}data: s\n\ndata: 12345\ndata: 67890\n\n`;
  for (let size = 1; size <= whole.length; size++) {
    const [events, longs] = parse(whole, size);
    t.same(events, [['', 's']], `${size} units`);
    t.same(longs, ['a:123456789 ä€😀 123456789\nx', ':12345\n67890'], `${size} units`);
  }
  t.throws(() => parse(`data: ${'x'.repeat(101)}`, 7, 100), /too long/);
  t.throws(() => parse(`: ${'x'.repeat(101)}`, 7, 100), /too long/);
  t.throws(() => parse('data: xxxxxxxxxxx\n'.repeat(20), 7, 100), /too long/);
  t.same(parse(`${comment}data: 1\n\n`.repeat(20), 7, 100)[0].length, 20, 'skipped lines do not add up');
});

t.test('one-byte chunks take linear time', async (t) => {
  const bytes = new TextEncoder().encode(`data: ${'x'.repeat(300_000)}\n\n`);
  const before = process.cpuUsage().user;
  t.equal(read(cut(bytes, 1), { maxLength: 1e6, decode: utf8Chunks() })[0]?.[1].length, 300_000);
  t.ok(process.cpuUsage().user - before < 3e6);
});
