// Tests how WebSocket connections end: at their maximum age, when the key is revoked, and at shutdown. The server runs
// in this process, so that the test can revoke keys and drain it.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { configWith } from '../../src/config/load.js';
import { startServer } from '../../src/server/server.js';
import { writeScriptModel } from '../support/script-model.js';
import { Connection, resourceOf } from '../support/web-socket.js';
import { eventually } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const MAX_AGE_S = 2;

t.test('how a WebSocket connection of /v1/responses ends', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-ends-'));
  const model = join(folder, 'script.gguf');
  writeScriptModel(model);
  const server = await startServer(
    configWith({
      port: 0,
      data_dir: join(folder, 'data'),
      log_level: 'silent',
      model: [`hal-1.0=${model}`],
      ws: { max_age_s: MAX_AGE_S },
      engine: { drain_ms: 300, speculation: 'off' }, // speculation would finish the long script too soon
    }),
  );
  t.teardown(async () => {
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const key = server.createdKey as string;
  const open = (secret = key): Promise<Connection> => Connection.open({ port: server.port, key: secret });
  const endless = { input: 'L: story', max_output_tokens: 15_000 };

  t.test('revoking the API key fails the running response and closes the connection', async (t) => {
    const {
      key: { id },
      secret,
    } = await server.accounts.createKey({ name: 'short' });
    const connection = await open(secret);
    t.equal(resourceOf(await connection.turn({ input: 'A: x' })).status, 'completed');
    connection.send(endless);
    await connection.next();
    await server.accounts.revokeKey(id);
    connection.send({ input: 'A: x', stream_id: 'late' });
    connection.send({ input: 'A: x' });
    t.match(
      resourceOf(await connection.rest()),
      { status: 'failed', error: { message: /revoked/ } },
      'the running response ends as failed',
    );
    t.match(await connection.rest(), [
      { status: 401, stream_id: 'late', error: { code: 'api_key_revoked', type: 'authentication_error' } },
    ]);
    t.match(await connection.rest(), [{ status: 401 }], 'the waiting message is refused too');
    t.equal((await connection.closed)[0], 1008);
  });

  t.test('a connection over its maximum age is closed after its running response', async (t) => {
    const [idle, busy] = await Promise.all([open(), open()]);
    const before = Date.now();
    let turns = 0;
    // Responses run one after another, so that a response is in progress when the connection reaches its maximum age.
    const ran = (async () => {
      for (;;) {
        const events = await busy.turn({ input: 'L: story', max_output_tokens: 100, store: false });
        if (events.at(-1)?.type === 'error') return events;
        turns++;
      }
    })();
    t.match(await idle.next(), {
      type: 'error',
      status: 400,
      error: { code: 'websocket_connection_limit_reached', type: 'invalid_request_error' },
    });
    t.equal((await idle.closed)[0], 1001);
    t.ok(Date.now() - before >= MAX_AGE_S * 1000 - 50);
    t.match(
      await ran,
      [{ status: 400, error: { code: 'websocket_connection_limit_reached' } }],
      'the client receives a single error message and no partial response',
    );
    t.ok(turns > 1);
    t.equal((await busy.closed)[0], 1001);
    t.equal(busy.unread, 0);
  });

  t.test('shutdown ends running responses early and closes all connections', async (t) => {
    const [idle, busy, waiting] = await Promise.all([open(), open(), open()]);
    for (const one of [busy, waiting]) one.send(endless);
    waiting.send({ input: 'A: x', stream_id: 'waits' });
    for (const one of [busy, waiting]) await one.next();
    t.equal(server.http.inFlight, 2);
    const drained = server.drain();
    t.match(await idle.next(), {
      type: 'error',
      status: 503,
      error: { code: 'shutting_down', headers: { 'retry-after': '10' } },
    });
    t.equal((await idle.closed)[0], 1012);
    const cut = resourceOf(await busy.rest());
    t.equal(cut.status, 'incomplete');
    t.same(cut.incomplete_details, { reason: 'max_output_tokens' });
    t.equal((await busy.closed)[0], 1012);
    t.equal(busy.unread, 0, 'the end of the response was the last message');
    t.equal(resourceOf(await waiting.rest()).status, 'incomplete');
    t.match(await waiting.rest(), [{ status: 503, stream_id: 'waits', error: { code: 'shutting_down' } }]);
    t.equal((await waiting.closed)[0], 1012);
    await drained;
    t.equal(server.http.inFlight, 0);
    t.ok(
      await eventually(() =>
        fetch(server.url).then(
          () => false,
          () => true,
        ),
      ),
      'the server no longer accepts connections',
    );
  });
});
