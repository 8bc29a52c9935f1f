// Tests the dispatcher of webhooks on a real store with receivers on real sockets: an endpoint that does not respond
// must not delay the other endpoints of its organization.
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { LocalBus } from '../../src/shared/bus.js';
import { newEventId } from '../../src/shared/ids.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { LmdbWebhookStore } from '../../src/storage/lmdb/webhooks/webhook-store.js';
import { Dispatcher } from '../../src/webhooks/dispatcher.js';
import { newWebhookSecret } from '../../src/webhooks/signature.js';
import { WebhookEvents } from '../../src/webhooks/webhook-events.js';
import type { Endpoint, Job } from '../../src/webhooks/webhook-store.js';
import { eventually } from '../e2e/monolith.js';
import { webhookReceiver } from '../support/alert-receivers.js';

t.setTimeout(120_000); // the machine may be busy

const path = mkdtempSync(join(tmpdir(), 'monolith-dispatcher-'));
const store = await openStore(path);
t.teardown(async () => {
  await store.close();
  rmSync(path, { recursive: true, force: true });
});
const webhooks = new LmdbWebhookStore(store);
const secret = newWebhookSecret();

/** A receiver that accepts connections and never responds. */
async function silentReceiver(t: Test): Promise<{ url: string; mostAtOnce(): number; requests(): number }> {
  let open = 0;
  let most = 0;
  let requests = 0;
  const server = createServer((request, response) => {
    requests++;
    most = Math.max(most, ++open);
    response.on('close', () => open--);
    request.resume();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/hook`, mostAtOnce: () => most, requests: () => requests };
}

const endpoint = (id: string, url: string, change: Partial<Endpoint> = {}): Endpoint => ({
  id,
  organizationId: 'org_a',
  url,
  events: ['response.completed'],
  sealedSecret: 'sealed',
  createdAt: Date.now(),
  disabled: null,
  failures: 0,
  pausedUntil: 0,
  deliveredAt: null,
  ...change,
});

function job(endpointId: string, dueAt: number): Job {
  const eventId = newEventId();
  return {
    id: `${eventId}.${endpointId}`,
    organizationId: 'org_a',
    endpointId,
    eventId,
    type: 'response.completed',
    body: '{}',
    state: 'pending',
    createdAt: Date.now(),
    dueAt,
    attempts: 0,
    error: null,
  };
}

t.test('an endpoint that has failed and does not respond gets one attempt at a time', async (t) => {
  const silent = await silentReceiver(t);
  const healthy = await webhookReceiver(t);
  await webhooks.addEndpoint(endpoint('wh_silent', silent.url, { failures: 3 }), 10);
  await webhooks.addEndpoint(endpoint('wh_healthy', healthy.url), 10);
  const now = Date.now();
  // The deliveries to the silent endpoint are due first.
  await webhooks.add(Array.from({ length: 50 }, () => job('wh_silent', now - 1_000)));
  await webhooks.add(Array.from({ length: 5 }, () => job('wh_healthy', now)));
  const log = {
    warn: () => undefined,
    info: () => undefined,
    error: (fields: object) => t.fail(JSON.stringify(fields)),
  };
  const dispatcher = new Dispatcher({
    store: webhooks,
    events: new WebhookEvents(webhooks, new LocalBus(), Date.now),
    responses: { head: () => Promise.resolve(null) },
    batches: { get: () => Promise.resolve(null) },
    box: { open: () => ({ text: secret, current: true }), seal: () => 'sealed' },
    settings: { public_only: false, timeout_ms: 5_000, retry_s: 86_400 },
    telemetry: { webhookDelivered: () => undefined, log },
    now: Date.now,
  });
  try {
    t.ok(await eventually(() => healthy.taken.length === 5, 60_000));
    t.equal(silent.mostAtOnce(), 1, `of ${silent.requests()} requests`);
  } finally {
    await dispatcher.close();
  }
});
