// Tests SIGTERM: new requests are refused, running requests finish or end early, and the exit code is 0. A second
// signal ends the process immediately. Also tests the notifications to systemd.
import { once } from 'node:events';
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { withoutThreads } from '../support/http-server.js';
import { embeddedModel, eventually, startMonolith, type Monolith } from './monolith.js';

t.setTimeout(600_000); // the machine may be busy

const SLOW = ['--isa', 'plain', '--threads', '1', '--arithmetic', 'exact'];

function begin(server: Monolith, maxTokens: number): Promise<Response> {
  return fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'hal-1.0',
      stream: true,
      ignore_eos: true,
      max_tokens: maxTokens,
      messages: [{ role: 'user', content: 'tell me' }],
    }),
  });
}

/** Waits until every HTTP worker has handled the signal. New connections reach every worker. */
const notReady = (server: Monolith): Promise<boolean> =>
  eventually(async () => {
    const asked = await Promise.all(
      Array.from({ length: 4 }, () =>
        fetch(`${server.url}/readyz`, { headers: { connection: 'close' } }).catch(() => null),
      ),
    );
    return asked.every((ready) => ready === null || ready.status === 503);
  });

/**
 * Makes a server thread throw outside of any request once a file named after its number exists. 0 is the main thread;
 * other numbers are HTTP workers.
 */
function throwing(folder: string): Record<string, string> {
  const code = `import { existsSync, rmSync } from 'node:fs'; import { isMainThread, workerData } from 'node:worker_threads';
    const file = ${JSON.stringify(`${folder}/`)} + (isMainThread ? 0 : workerData?.index);
    setInterval(() => { if (existsSync(file)) { rmSync(file); throw new Error('a fault of ours'); } }, 20).unref();`;
  return { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(code)}` };
}

t.test('an uncaught exception on the main thread drains the server, which exits with code 1', async (t) => {
  const folder = t.testdir();
  const server = await startMonolith({ args: SLOW, env: throwing(folder) });
  const response = await begin(server, 100);
  const exited = once(server.process, 'exit');
  writeFileSync(join(folder, '0'), '');
  t.ok(await notReady(server));
  const text = await response.text();
  t.match(text, /"finish_reason":"length"/);
  t.ok(text.endsWith('data: [DONE]\n\n'));
  t.same(await exited, [1, null]);
  t.match(server.log(), /uncaught exception: draining, then exiting with code 1/);
  t.match(server.log(), /a fault of ours/);
});

t.test(
  'an HTTP worker with an uncaught exception finishes its requests and is replaced',
  { skip: withoutThreads },
  async (t) => {
    const folder = t.testdir();
    const server = await startMonolith({ args: [...SLOW, '--http-threads', '2'], env: throwing(folder) });
    t.teardown(() => server.stop());
    const responses = await Promise.all([0, 1].map(() => begin(server, 40)));
    writeFileSync(join(folder, '1'), '');
    t.ok(await eventually(() => server.log().includes('this HTTP worker is drained and replaced')));
    t.equal((await begin(server, 1)).status, 200, 'the other worker serves requests');
    for (const response of responses)
      t.match(await response.text(), /"finish_reason":"length"/, 'running requests finish');
    t.ok(await eventually(() => server.log().includes('HTTP worker is serving again')));
    const asked = await Promise.all(
      Array.from({ length: 8 }, () => fetch(`${server.url}/readyz`, { headers: { connection: 'close' } })),
    );
    t.same(
      asked.map(({ status }) => status),
      Array(8).fill(200),
    );
  },
);

for (const threads of ['1', '2']) {
  t.test(
    `on SIGTERM, a running stream finishes, readiness fails and new requests are refused (http.threads ${threads})`,
    { skip: threads !== '1' && withoutThreads },
    async (t) => {
      const server = await startMonolith({ args: [...SLOW, '--http-threads', threads] });
      const response = await begin(server, 120);
      const stopped = server.stop();
      t.ok(await notReady(server));
      const refused = await begin(server, 1).catch(() => null);
      if (refused !== null) {
        t.equal(refused.status, 503);
        t.match(await refused.json(), { error: { code: 'shutting_down' } });
        t.ok(refused.headers.get('retry-after'));
      }
      const text = await response.text();
      t.match(text, /"finish_reason":"length"/);
      t.ok(text.endsWith('data: [DONE]\n\n'));
      t.equal(await stopped, 0);
    },
  );
}

t.test(
  'a stream that outlasts the drain time ends early with finish_reason length',
  { skip: withoutThreads },
  async (t) => {
    const server = await startMonolith({ args: [...SLOW, '--engine-drain-ms', '50', '--http-threads', '2'] });
    const response = await begin(server, 2_000);
    const stopped = server.stop();
    const text = await response.text();
    t.match(text, /"finish_reason":"length"/);
    t.ok(text.endsWith('data: [DONE]\n\n'));
    t.equal(await stopped, 0);
  },
);

t.test('a second SIGTERM ends the process immediately', async (t) => {
  const server = await startMonolith({ args: [...SLOW, '--http-threads', '1'] });
  const response = await begin(server, 2_000);
  server.process.kill('SIGTERM');
  t.ok(await notReady(server));
  // Send the signal repeatedly, because a signal that arrives shortly after the first signal is treated as a duplicate.
  t.ok(await eventually(() => !server.process.kill('SIGTERM') || server.process.exitCode !== null));
  t.equal(server.process.exitCode, 1);
  await response.text().catch(() => undefined);
});

t.test(
  'notifies systemd when the server is ready and when it stops, and keeps secrets out of the journal',
  async (t) => {
    const folder = t.testdir({ 'systemd-notify': '#!/bin/sh\necho "$1 $NOTIFY_SOCKET" >> "$0.calls"\n', data: {} });
    chmodSync(join(folder, 'systemd-notify'), 0o755);
    const server = await startMonolith({
      args: ['--model', `hal-1.0=${embeddedModel}`, '--host', '0.0.0.0', '--accounts-signup', 'auto'],
      env: {
        PATH: `${folder}:${process.env['PATH']}`,
        NOTIFY_SOCKET: '/run/systemd/notify',
        MONOLITH_DATA_DIR: join(folder, 'data'),
        MONOLITH_API_KEY: '',
      },
    });
    t.notOk('api_key' in server.ready || 'setup_url' in server.ready, 'the ready message has no secrets');
    const file = join(folder, 'data', 'first-start.txt');
    t.equal(statSync(file).mode & 0o777, 0o600);
    const text = readFileSync(file, 'utf8');
    t.match(text, /API key +sk-\w{48}/);
    t.match(text, /Sign up as the first user/);
    const calls = (): string => readFileSync(join(folder, 'systemd-notify.calls'), 'utf8');
    // The shell creates the file before it writes to it.
    t.ok(await eventually(() => existsSync(join(folder, 'systemd-notify.calls')) && calls() !== ''));
    t.equal(calls(), 'READY=1 /run/systemd/notify\n');
    t.equal(await server.stop(), 0);
    t.equal(calls(), 'READY=1 /run/systemd/notify\nSTOPPING=1 /run/systemd/notify\n');
  },
);
