// Tests the webhook dispatcher with a real HTTP server and real databases: several dispatchers on one store, addresses
// that are not public, and failures.
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import { KeyRing } from '../../src/accounts/sealing/key-ring.js';
import { SecretBox } from '../../src/accounts/sealing/secret-box.js';
import { LocalBus } from '../../src/shared/bus.js';
import { newAccountId } from '../../src/shared/ids.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { LmdbWebhookStore } from '../../src/storage/lmdb/webhooks/webhook-store.js';
import { openPool } from '../../src/storage/postgres/database.js';
import { migrate } from '../../src/storage/postgres/migrations.js';
import { PostgresWebhookStore } from '../../src/storage/postgres/webhooks/webhook-store.js';
import { createTelemetry } from '../../src/telemetry/telemetry.js';
import { withMessage } from '../../src/usage/webhook.js';
import { Dispatcher, pauseMs } from '../../src/webhooks/dispatcher.js';
import { EVENT_TYPES } from '../../src/shared/wire/webhooks.js';
import { newWebhookSecret } from '../../src/webhooks/signature.js';
import { WebhookEvents } from '../../src/webhooks/webhook-events.js';
import type { WebhookStore } from '../../src/webhooks/webhook-store.js';
import { eventually } from '../e2e/monolith.js';
import { webhookReceiver } from '../support/alert-receivers.js';
import { startPostgres, withoutPostgres } from '../support/postgres.js';

t.setTimeout(300_000); // the machine may be busy

const box = new SecretBox(new KeyRing([Buffer.alloc(32, 1)]));
const secret = newWebhookSecret();
const telemetry = createTelemetry({ format: 'json', level: 'silent', write: () => undefined });

async function endpoint(store: WebhookStore, url: string, organizationId = 'org_a'): Promise<string> {
  const id = newAccountId('wh');
  await store.addEndpoint(
    {
      id,
      organizationId,
      url,
      events: EVENT_TYPES,
      sealedSecret: box.seal('webhook secret', id, secret),
      createdAt: Date.now(),
      disabled: null,
      failures: 0,
      pausedUntil: 0,
      deliveredAt: null,
    },
    10,
  );
  return id;
}

/** Starts a dispatcher, as each server process does. */
function dispatcherOn(
  t: Test,
  store: WebhookStore,
  settings: { public_only?: boolean; timeout_ms?: number } = {},
): { events: WebhookEvents } {
  const events = new WebhookEvents(store, new LocalBus(), Date.now);
  const dispatcher = new Dispatcher({
    store,
    events,
    responses: { head: () => Promise.resolve(null) },
    batches: { get: () => Promise.resolve(null) },
    box,
    settings: { public_only: false, timeout_ms: 5_000, retry_s: 86_400, ...settings },
    telemetry,
    now: Date.now,
  });
  events.onDue(() => dispatcher.wake());
  t.teardown(() => dispatcher.close());
  return { events };
}

/** Starts a server that accepts requests but never responds. Resolves to its URL. */
async function silentUrl(t: Test): Promise<string> {
  const silent = createServer(() => undefined).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.teardown(() => {
    silent.closeAllConnections();
    silent.close();
  });
  return `http://127.0.0.1:${(silent.address() as AddressInfo).port}/`;
}

async function lmdb(t: Test): Promise<WebhookStore> {
  const path = mkdtempSync(join(tmpdir(), 'monolith-dispatcher-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  return new LmdbWebhookStore(store);
}

async function postgres(t: Test): Promise<WebhookStore> {
  const server = await startPostgres();
  const settings = { url: await server.create(), connections: 6, timeout_ms: 60_000 };
  await migrate(settings);
  const database = openPool(settings);
  t.teardown(async () => {
    await database.close();
    await server.close();
  });
  return new PostgresWebhookStore(database);
}

for (const [name, open, skip] of [
  ['LMDB', lmdb, false],
  ['PostgreSQL', postgres, withoutPostgres],
] as const)
  t.test(`several dispatchers on ${name} send each event of a batch once`, { skip }, async (t) => {
    const store = await open(t);
    const receiver = await webhookReceiver(t);
    const id = await endpoint(store, receiver.url);
    const dispatchers = [dispatcherOn(t, store), dispatcherOn(t, store), dispatcherOn(t, store)];
    const batches = Array.from({ length: 60 }, (_, at) => `batch_${at}`);
    await Promise.all(
      batches.map((batch, at) =>
        dispatchers[at % 3]!.events.notify('org_a', { type: 'batch.completed', data: { id: batch } }),
      ),
    );
    await dispatchers[0]!.events.notify('org_b', { type: 'batch.failed', data: { id: 'batch_other' } });
    t.ok(await eventually(() => receiver.taken.length >= batches.length, 60_000));
    t.ok(await eventually(async () => (await store.deliveries('org_a', id, 100)).every(({ dueAt }) => dueAt === null)));
    t.same(
      receiver
        .bodies()
        .map(({ data }) => (data as { id: string }).id)
        .sort(),
      batches.toSorted(),
    );
    const [{ body, headers }] = receiver.taken as [(typeof receiver.taken)[0]];
    const event = await new OpenAI({ apiKey: 'x' }).webhooks.unwrap(body, headers as Record<string, string>, secret);
    t.equal(event.type, 'batch.completed');
  });

t.test('does not connect to an address that is not public, even if it was allowed before', async (t) => {
  const store = await lmdb(t);
  const receiver = await webhookReceiver(t);
  const id = await endpoint(store, receiver.url);
  const { events } = dispatcherOn(t, store, { public_only: true });
  await events.notify('org_a', { type: 'batch.expired', data: { id: 'batch_1' } });
  t.ok(await eventually(async () => (await store.deliveries('org_a', id, 1))[0]?.attempts === 1));
  t.match(await store.deliveries('org_a', id, 1), [{ state: 'pending', error: '127.0.0.1 is not a public address' }]);
  t.equal(receiver.taken.length, 0);
});

t.test('deliveries that fail concurrently count as one failure of the endpoint', async (t) => {
  const store = await lmdb(t);
  const receiver = await webhookReceiver(t, 503);
  const id = await endpoint(store, receiver.url);
  const { events } = dispatcherOn(t, store);
  const start = Date.now();
  await Promise.all(
    Array.from({ length: 8 }, (_, at) =>
      events.notify('org_a', { type: 'batch.completed', data: { id: `batch_${at}` } }),
    ),
  );
  t.ok(
    await eventually(async () => (await store.deliveries('org_a', id, 9)).every(({ dueAt }) => dueAt! > start + 3_000)),
  );
  t.ok(receiver.taken.length > 1, 'several attempts have failed');
  const paused = await store.endpoint('org_a', id);
  t.equal(paused?.failures, 1);
  t.ok(paused!.pausedUntil - Date.now() <= pauseMs(1));
});

t.test('the error of a failed delivery names the cause', async (t) => {
  const store = await lmdb(t);
  const slow = await endpoint(store, await silentUrl(t));
  const closed = await endpoint(store, 'http://127.0.0.1:1/');
  const { events } = dispatcherOn(t, store, { timeout_ms: 1_000 });
  await events.notify('org_a', { type: 'batch.completed', data: { id: 'batch_1' } });
  const errorOf = async (id: string): Promise<string> => (await store.deliveries('org_a', id, 1))[0]?.error ?? '';
  t.ok(await eventually(async () => (await errorOf(slow)) !== '' && (await errorOf(closed)) !== ''));
  t.equal(await errorOf(slow), 'no response within 1 s');
  t.equal(await errorOf(closed), 'connect ECONNREFUSED 127.0.0.1:1');
  const socket = connect({
    host: 'two-addresses.example',
    port: 1,
    lookup: (_host, _options, done) =>
      done(null, [
        { address: '127.0.0.1', family: 4 },
        { address: '127.0.0.2', family: 4 },
      ]),
  });
  const [error] = (await once(socket, 'error').catch((error: unknown) => [error])) as [Error];
  t.equal(withMessage(error).message, 'connect ECONNREFUSED 127.0.0.1:1, connect ECONNREFUSED 127.0.0.2:1');
});

t.test("slow endpoints of an organization do not delay another organization's webhooks", async (t) => {
  const store = await lmdb(t);
  const slow = await endpoint(store, await silentUrl(t));
  const receiver = await webhookReceiver(t);
  const fast = await endpoint(store, receiver.url, 'org_b');
  const { events } = dispatcherOn(t, store);
  for (let at = 0; at < 40; at++)
    await events.notify('org_a', { type: 'batch.completed', data: { id: `batch_${at}` } });
  await events.notify('org_b', { type: 'batch.completed', data: { id: 'batch_other' } });
  t.ok(await eventually(async () => (await store.deliveries('org_b', fast, 1))[0]?.state === 'delivered'));
  t.equal((await store.endpoint('org_a', slow))?.failures, 0, 'no attempt of the slow endpoint has ended yet');
});
