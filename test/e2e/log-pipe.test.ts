// Tests a server whose log nobody reads: it keeps serving, counts the lines it drops, logs again once the log is read,
// and exits cleanly.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { withoutThreads } from '../support/http-server.js';
import { eventually, startMonolith, type Monolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

/** Number of requests to send. Their log lines exceed the server's buffer of 1 MiB. */
const REQUESTS = 3_300;
const DROPPED = 'monolith_log_lines_dropped_total';

/** Creates a named pipe. read() returns everything written to the pipe so far. */
function openPipe(folder: string): { fd: number; read(): string; close(): void } {
  const path = join(folder, 'log');
  execFileSync('mkfifo', [path]);
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const fd = openSync(path, constants.O_WRONLY);
  let text = '';
  return {
    fd,
    read() {
      const part = Buffer.alloc(65_536);
      try {
        for (let length = 1; length > 0; text += part.toString('utf8', 0, length)) length = readSync(reader, part);
      } catch {
        // EAGAIN: the pipe is empty
      }
      return text;
    },
    close: () => [reader, fd].forEach((one) => closeSync(one)),
  };
}

/** Every request writes a log line of about 400 bytes. */
async function flood(server: Monolith, count: number): Promise<void> {
  let left = count;
  await Promise.all(
    Array.from({ length: 32 }, async () => {
      while (left-- > 0) {
        const response = await fetch(`${server.url}/v1/models`, {
          headers: { authorization: `Bearer ${server.key}`, 'x-client-request-id': 'x'.repeat(128) },
        });
        await response.arrayBuffer();
      }
    }),
  );
}

async function streamedTokens(server: Monolith): Promise<string> {
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'hal-1.0',
      stream: true,
      ignore_eos: true,
      max_tokens: 200,
      messages: [{ role: 'user', content: 'tell me' }],
    }),
  });
  return response.text();
}

const NO_LIMITS = ['--limits-rpm', 'off', '--limits-loop-ms', 'off', '--log-level', 'debug'];

t.test('streams continue while nobody reads the log, with two HTTP workers', { skip: withoutThreads }, async (t) => {
  const pipe = openPipe(t.testdir());
  t.teardown(() => pipe.close());
  const server = await startMonolith({ args: [...NO_LIMITS, '--http-threads', '2'], stderr: pipe.fd });
  t.teardown(() => server.stop());
  const [text] = await Promise.all([streamedTokens(server), flood(server, REQUESTS)]);
  t.ok(text.endsWith('data: [DONE]\n\n'));
  t.ok((await streamedTokens(server)).endsWith('data: [DONE]\n\n'), 'a stream that starts with a full buffer ends');
  const dropped = (await server.metrics()).get(DROPPED) ?? 0;
  t.ok(dropped > 0, `dropped lines are counted: ${dropped}`);

  t.ok(
    await eventually(async () => {
      pipe.read();
      await fetch(`${server.url}/v1/models/later`, { headers: { authorization: `Bearer ${server.key}` } });
      return pipe.read().includes('"status":404');
    }),
    'lines are written again',
  );
  t.ok(await eventually(() => pipe.read().endsWith('\n')));
  const lines = pipe.read().trimEnd().split('\n');
  const requests = lines
    .map((line) => JSON.parse(line) as { path?: string })
    .filter((one) => one.path === '/v1/models');
  t.ok(requests.length + dropped >= REQUESTS, 'every line is written or counted');
  t.ok(requests.length < REQUESTS);

  const exited = once(server.process, 'exit');
  server.process.kill('SIGTERM');
  const reading = setInterval(() => pipe.read(), 10);
  t.same(await exited, [0, null]);
  clearInterval(reading);
  t.match(pipe.read(), /"shutting down; a second signal exits immediately"[^]*"draining"/);
});

t.test('SIGTERM ends the server even if the log is not read', async (t) => {
  const server = await startMonolith({ args: [...NO_LIMITS, '--http-threads', '1'] });
  server.process.stderr?.pause(); // a socket, as in a systemd service
  await flood(server, REQUESTS);
  t.ok(((await server.metrics()).get(DROPPED) ?? 0) > 0);
  const exited = once(server.process, 'exit');
  server.process.kill('SIGTERM');
  t.same(await exited, [0, null]);
});

t.test("requests are served after the log's reader has closed its end", async (t) => {
  const server = await startMonolith({ args: [...NO_LIMITS, '--http-threads', '1'] });
  server.process.stderr?.destroy();
  await flood(server, 100);
  t.ok(((await server.metrics()).get(DROPPED) ?? 0) > 0, 'the lines count as dropped');
  t.equal(await server.stop(), 0);
});
