// Tests the log writer with a real pipe: what happens while nobody reads it, when its reader closes it, and at exit.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { createLog } from '../../src/telemetry/logger.js';
import { readable } from '../../src/telemetry/text-line.js';
import { BUFFER_BYTES, LogWriter } from '../../src/telemetry/log-writer.js';

const module = pathToFileURL(join(import.meta.dirname, '..', '..', 'src', 'telemetry', 'log-writer.js')).href;

function pipe(folder: string): string {
  const path = join(folder, 'pipe');
  execFileSync('mkfifo', [path]);
  return path;
}

const opened = (path: string, mode: number): number => openSync(path, mode | constants.O_NONBLOCK);

/** Returns the data that can be read at the moment. */
function readNow(fd: number): string {
  const parts: Buffer[] = [];
  for (;;) {
    const part = Buffer.alloc(65_536);
    let length = 0;
    try {
      length = readSync(fd, part);
    } catch {
      // EAGAIN
    }
    if (length === 0) return Buffer.concat(parts).toString('latin1'); // parts may end within a character
    parts.push(part.subarray(0, length));
  }
}

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

t.test('keeps at most 1 MiB of lines, and loses none of them', async (t) => {
  const path = pipe(t.testdir());
  const reader = opened(path, constants.O_RDONLY);
  const fd = opened(path, constants.O_WRONLY);
  t.teardown(() => [reader, fd].forEach((one) => closeSync(one)));
  const writer = new LogWriter(() => fd);
  let written = 0;
  const line = (): string => `${written++} ${'ä'.repeat(500)}\n`;
  const accepted: string[] = [];
  for (let round = 0; round < 100; round++) {
    for (let count = 0; count < 30; count++) {
      const text = line();
      const before = writer.dropped;
      writer.write(text);
      if (writer.dropped === before) accepted.push(text);
    }
    await pause(1);
  }
  t.equal(writer.dropped, 3_000 - accepted.length);
  const bytes = Buffer.byteLength(accepted.join(''));
  t.ok(bytes >= BUFFER_BYTES - 2_000, 'the buffer is used completely');
  t.ok(bytes <= BUFFER_BYTES + 65_536, 'the pipe holds the rest');
  const from = performance.now();
  await writer.flush();
  t.ok(performance.now() - from < 5_000, 'flush() returns although nobody reads');

  let text = '';
  for (let tries = 0; tries < 500 && text.length < bytes; tries++) {
    text += readNow(reader);
    await pause(5);
  }
  t.ok(text === Buffer.from(accepted.join('')).toString('latin1'), 'every accepted line arrives once and in order');
  writer.write('later\n');
  await writer.flush();
  t.equal(readNow(reader), 'later\n');
});

t.test('drops lines after the reader has closed the pipe, and writes again once there is another reader', async (t) => {
  const path = pipe(t.testdir());
  const first = opened(path, constants.O_RDONLY);
  const fd = opened(path, constants.O_WRONLY);
  const writer = new LogWriter(() => fd);
  writer.write('one\n');
  await writer.flush();
  t.equal(readNow(first), 'one\n');
  closeSync(first);
  for (let count = 0; count < 3; count++) writer.write('lost\n');
  await writer.flush();
  t.equal(writer.dropped, 3);
  const second = opened(path, constants.O_RDONLY);
  t.teardown(() => [second, fd].forEach((one) => closeSync(one)));
  writer.write('two\n');
  await writer.flush();
  t.equal(readNow(second), 'two\n');
});

for (const [kind, code] of [
  ['flush()', 'await stderrLog.flush(); process.exit(3);'],
  ['process.exit()', 'process.exit(3);'],
  ['an exception', "process.exitCode = 3; process.on('uncaughtException', () => {}); throw new Error('x');"],
  ['the end of the program', 'process.exitCode = 3;'],
] as const) {
  const script = `import { stderrLog } from ${JSON.stringify(module)};
    for (let line = 0; line < 900; line++) stderrLog.write(line + ' ' + 'x'.repeat(1000) + '\\n'); ${code}`;

  t.test(`${kind}: lines are written to a reader that reads late`, async (t) => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const exited = once(child, 'exit');
    await pause(500);
    let text = '';
    child.stderr.setEncoding('utf8').on('data', (part: string) => (text += part));
    t.same(await exited, [3, null]);
    if (!child.stderr.readableEnded) await once(child.stderr, 'end');
    const lines = text.split('\n');
    t.equal(lines.length, 901);
    t.same(
      lines.slice(0, 900).map((line) => Number.parseInt(line, 10)),
      lines.slice(0, 900).map((_, at) => at),
    );
  });

  t.test(`${kind}: the process ends although nobody reads`, async (t) => {
    for (const isFifo of [true, false]) {
      const path = isFifo ? pipe(t.testdir()) : null;
      const reader = path === null ? null : opened(path, constants.O_RDONLY);
      const fifo = path === null ? null : opened(path, constants.O_WRONLY);
      const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
        stdio: ['ignore', 'ignore', fifo ?? 'pipe'],
      });
      const timer = setTimeout(() => child.kill('SIGKILL'), 20_000);
      t.same(await once(child, 'exit'), [3, null], isFifo ? 'pipe' : 'socket');
      clearTimeout(timer);
      for (const fd of [reader, fifo]) if (fd !== null) closeSync(fd);
    }
  });
}

t.test('the text format shows the fields as the JSON format does', (t) => {
  const json: string[] = [];
  const text: string[] = [];
  const logs = [
    createLog({ format: 'json', level: 'debug', thread: 2, write: (line) => json.push(line) }),
    createLog({ format: 'text', level: 'debug', thread: 2, write: (line) => text.push(line) }),
  ];
  class Named extends Error {
    readonly code = 'named';
  }
  for (const fields of [
    {},
    {
      status: 200,
      ms: 1.2345,
      code: null,
      none: undefined,
      ok: true,
      name: 'a b',
      empty: '',
      equal: 'a=b',
      quote: '"',
    },
    { nan: Number.NaN, infinite: Number.POSITIVE_INFINITY, big: 12n, call: () => 1, symbol: Symbol('s') },
    { list: [1, null, 'x'], nested: { a: { b: undefined, c: 'ü' } }, date: new Date(0), zero: -0 },
    { level: 'other', thread: 9, 2: 'two', 1: 'one' },
    { err: new Error('outer', { cause: new Named('inner\nline') }), path: '/x' },
    { err: 'a thrown string' },
    { err: null },
    { err: { message: 'like an error' } },
    { text: 'bad \u001b[31m\ud800 \u2028', lines: 'a\nb' },
    new Named('itself'),
  ])
    for (const log of logs) log.error(fields, 'message with %s');
  t.equal(json.length, text.length);
  const clock = /^\S+/;
  for (const [at, line] of json.entries())
    t.equal(
      (text[at] as string).replace(clock, ''),
      readable(JSON.parse(line) as object).replace(clock, ''),
      `line ${at}`,
    );

  const circular: Record<string, unknown> = {};
  circular['self'] = circular;
  logs[1]?.info({ circular }, 'still logged');
  t.match(text.at(-1), /still logged {2}thread=2 circular="\[not serializable\]"/);
  t.end();
});
