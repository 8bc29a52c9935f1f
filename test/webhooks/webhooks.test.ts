// Tests webhooks of background responses with a real HTTP server and OpenAI's client, which verifies each message:
// retries, servers that are killed, disabled endpoints, and the dashboard's routes.
import { once } from 'node:events';
import OpenAI from 'openai';
import OpenAI7 from 'openai-7';
import t from 'tap';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { CreatedWebhook, WebhookDelivery, WebhookObject } from '../../src/shared/wire/webhooks.js';
import { eventually } from '../e2e/monolith.js';
import { dataFolder } from '../e2e/stored-server.js';
import { webhookReceiver, type Received, type WebhookReceiver } from '../support/alert-receivers.js';
import { refusal } from '../support/dashboard-client.js';
import { openOwned, type Owned } from '../support/owned-server.js';

t.setTimeout(600_000); // the machine may be busy

const model = 'clarke-1.0';
const ENV = { MONOLITH_WEBHOOKS_PUBLIC_ONLY: 'false' };
const { path: folder, remove } = dataFolder();
t.teardown(remove);
let owned: Owned = await openOwned({ env: { ...ENV, MONOLITH_DATA_DIR: folder } });
t.teardown(() => owned.close());
const list = (): string => `/organizations/${owned.organization.id}/webhooks`;
const { secret: key } = await owned.owner.post<CreatedApiKey>(`/organizations/${owned.organization.id}/api-keys`, {
  name: 'k',
});
const client = (): OpenAI => new OpenAI({ baseURL: `${owned.server.url}/v1`, apiKey: key, maxRetries: 0 });
const ask = (input: string, change: object = {}): Promise<OpenAI.Responses.Response> =>
  client().responses.create({
    model,
    reasoning: { effort: 'none' },
    input,
    background: true,
    ...change,
  }) as Promise<OpenAI.Responses.Response>;
const create = (receiver: WebhookReceiver, events?: readonly string[]): Promise<CreatedWebhook> =>
  owned.owner.post<CreatedWebhook>(list(), { url: receiver.url, ...(events === undefined ? {} : { events }) });
const deliveries = async (id: string): Promise<WebhookDelivery[]> =>
  (await owned.owner.get<ListPage<WebhookDelivery>>(`${list()}/${id}/deliveries`)).data;
const webhook = async (id: string): Promise<WebhookObject> =>
  (await owned.owner.get<ListPage<WebhookObject>>(list())).data.find((one) => one.id === id)!;

type Event = OpenAI.Webhooks.UnwrapWebhookEvent;
const unwrap = ({ body, headers }: Received, secret: string): Promise<Event> =>
  Promise.resolve(client().webhooks.unwrap(body, headers as Record<string, string>, secret));

async function restart(settings: Record<string, string> = {}): Promise<void> {
  const exited = once(owned.server.process, 'exit');
  owned.server.process.kill('SIGKILL');
  await exited;
  owned = await openOwned({ signUp: false, env: { ...ENV, ...settings, MONOLITH_DATA_DIR: folder } });
}

t.afterEach(async () => {
  for (const { id } of (await owned.owner.get<ListPage<WebhookObject>>(list())).data)
    await owned.owner.delete(`${list()}/${id}`);
});

t.test("the end of each background response is reported, with a signature that OpenAI's client accepts", async (t) => {
  const receiver = await webhookReceiver(t);
  const { id, secret } = await create(receiver);
  t.match(secret, /^whsec_/);
  const completed = await ask('A: x');
  const incomplete = await ask('L: x', { max_output_tokens: 20 });
  const cancelled = await ask('L: x', { max_output_tokens: 5_000 });
  await client().responses.cancel(cancelled.id);
  t.ok(await eventually(() => receiver.taken.length === 3));
  const events = await Promise.all(receiver.taken.map((one) => unwrap(one, secret)));
  const endOf = (one: { id: string }): string | undefined =>
    events.find(({ data }) => (data as { id: string }).id === one.id)?.type;
  t.equal(endOf(completed), 'response.completed');
  t.equal(endOf(incomplete), 'response.incomplete');
  t.equal(endOf(cancelled), 'response.cancelled');
  for (const [index, event] of events.entries()) {
    t.match(event, { id: /^evt_/, object: 'event', created_at: Number });
    t.equal(receiver.taken[index]!.headers['webhook-id'], event.id);
  }
  const [first] = receiver.taken;
  const newer = new OpenAI7({ apiKey: 'x', webhookSecret: secret });
  t.match(await newer.webhooks.unwrap(first!.body, first!.headers as Record<string, string>), { id: events[0]!.id });
  await t.rejects(unwrap({ ...first!, body: `${first!.body} ` }, secret), 'a changed message is not accepted');
  await t.rejects(unwrap(first!, `whsec_${Buffer.alloc(32).toString('base64')}`), 'nor another secret');
  t.ok(await eventually(async () => (await deliveries(id)).every(({ state }) => state === 'delivered')));
  t.match(
    (await deliveries(id)).map(({ object_id }) => object_id).sort(),
    [completed.id, incomplete.id, cancelled.id].sort(),
  );
  t.ok((await webhook(id)).last_delivered_at);
  t.ok((await owned.server.metrics()).get('monolith_webhook_deliveries_total{outcome="delivered"}')! >= 3);
});

t.test('only background responses are reported, and only the events that an endpoint has chosen', async (t) => {
  const [all, some] = [await webhookReceiver(t), await webhookReceiver(t)];
  await create(all);
  await create(some, ['response.incomplete', 'batch.completed']);
  await client().responses.create({ model, input: 'A: x' });
  await client().responses.create({ model, input: 'A: x', store: false });
  await ask('A: x');
  const { id } = await ask('L: x', { max_output_tokens: 20 });
  t.ok(await eventually(() => all.taken.length === 2 && some.taken.length === 1));
  await new Promise((done) => setTimeout(done, 500));
  t.equal(all.taken.length, 2);
  t.match(some.bodies(), [{ type: 'response.incomplete', data: { id } }]);
});

t.test('after a rotation, clients with the new or the old secret accept the messages', async (t) => {
  const receiver = await webhookReceiver(t);
  const { id, secret: first } = await create(receiver);
  const rotate = (overlap_seconds?: number): Promise<CreatedWebhook> =>
    owned.owner.post<CreatedWebhook>(`${list()}/${id}/rotate`, { overlap_seconds });
  const next = async (): Promise<Received> => {
    const before = receiver.taken.length;
    await ask('A: x');
    t.ok(await eventually(() => receiver.taken.length > before));
    return receiver.taken.at(-1)!;
  };
  const { secret: second, previous_secrets_until: until } = await rotate();
  t.not(second, first);
  t.ok(Math.abs(Date.parse(until!) - Date.now() - 86_400_000) < 600_000, 'the default overlap is 24 hours');
  const both = await next();
  for (const secret of [first, second]) {
    t.match(await unwrap(both, secret), { type: 'response.completed' });
    const newer = new OpenAI7({ apiKey: 'x', webhookSecret: secret });
    t.match(await newer.webhooks.unwrap(both.body, both.headers as Record<string, string>), { object: 'event' });
  }
  await t.rejects(unwrap({ ...both, body: `${both.body} ` }, first));

  const { secret: third } = await rotate(3_600);
  const three = await next();
  for (const secret of [first, second, third]) t.match(await unwrap(three, secret), { object: 'event' });

  const { secret: last, previous_secrets_until: none } = await rotate(0);
  t.equal(none, null);
  const one = await next();
  t.match(await unwrap(one, last), { object: 'event' });
  for (const secret of [first, second, third]) await t.rejects(unwrap(one, secret), 'a removed secret is not used');

  const { secret: newest } = await rotate(1);
  await new Promise((done) => setTimeout(done, 1_200));
  const late = await next();
  t.match(await unwrap(late, newest), { object: 'event' });
  await t.rejects(unwrap(late, last), 'a secret is not used after its overlap');
  t.equal((await webhook(id)).previous_secrets_until, null);

  await rotate(3_600);
  await restart();
  const restarted = await next();
  t.match(await unwrap(restarted, newest), { object: 'event' });
  t.match(await refusal(rotate(-1)), { status: 422, code: 'value_out_of_range', param: 'overlap_seconds' });
  t.match(await refusal(owned.owner.post(`${list()}/wh_unknown/rotate`, {})), { status: 404 });
});

t.test('a failed delivery is repeated with the same event ID, even after kill -9', async (t) => {
  const receiver = await webhookReceiver(t, 503);
  const { id, secret } = await create(receiver);
  const { id: response } = await ask('A: x');
  t.ok(await eventually(() => receiver.taken.length === 1));
  t.ok(await eventually(async () => (await deliveries(id))[0]?.attempts === 1));
  t.match(await deliveries(id), [{ state: 'pending', error: 'the receiver responded with status 503' }]);
  await restart();
  receiver.status = 204;
  t.ok(await eventually(() => receiver.taken.length === 2, 60_000));
  t.equal(receiver.taken[1]!.headers['webhook-id'], receiver.taken[0]!.headers['webhook-id']);
  t.match(await unwrap(receiver.taken[1]!, secret), { type: 'response.completed', data: { id: response } });
  t.ok(await eventually(async () => (await deliveries(id))[0]?.state === 'delivered'));
});

t.test('a response that kill -9 interrupted is reported as failed', async (t) => {
  const receiver = await webhookReceiver(t);
  await create(receiver);
  const { id } = await ask('L: x', { max_output_tokens: 10_000 });
  await restart();
  t.ok(await eventually(() => receiver.taken.length === 1, 90_000));
  t.match(receiver.bodies(), [{ type: 'response.failed', data: { id } }]);
});

t.test('an endpoint that accepts no event is disabled, and can be enabled again', async (t) => {
  await restart({ MONOLITH_WEBHOOKS_RETRY_S: '0' });
  const receiver = await webhookReceiver(t, 302);
  const { id } = await create(receiver);
  await ask('A: x');
  t.ok(await eventually(async () => (await webhook(id)).disabled !== null));
  t.match((await webhook(id)).disabled, /accepted.*responded with status 302/);
  t.equal(receiver.taken.length, 1, 'redirects are not followed');
  t.match(await deliveries(id), [{ state: 'failed', attempts: 1 }]);
  await ask('A: x');
  await new Promise((done) => setTimeout(done, 500));
  t.equal(receiver.taken.length, 1);
  receiver.status = 200;
  t.match(await owned.owner.patch<WebhookObject>(`${list()}/${id}`, { enabled: true }), { disabled: null });
  await ask('A: x');
  t.ok(await eventually(() => receiver.taken.length === 2));
  t.match(await owned.owner.patch<WebhookObject>(`${list()}/${id}`, { enabled: false }), { disabled: /admin/ });
});

t.test('invalid endpoints are rejected with an error that names the field', async (t) => {
  await restart({ MONOLITH_WEBHOOKS_PUBLIC_ONLY: 'true', MONOLITH_WEBHOOKS_MAX_ENDPOINTS: '2' });
  const { owner, client: stranger } = owned;
  const url = 'https://hooks.example.com/x';
  for (const address of ['http://127.0.0.1/x', 'http://[::1]/', 'http://10.1.2.3/', 'https://localhost/'])
    t.match(await refusal(owner.post(list(), { url: address })), { status: 422, code: 'invalid_value', param: 'url' });
  for (const wrong of [{ url: 'ftp://x.example.com' }, { url: 'x' }, {}, { url, events: ['x'] }, { url, events: [] }])
    t.ok((await refusal(owner.post(list(), wrong))).status >= 400);
  const created = await owner.post<CreatedWebhook>(list(), { url, events: ['response.failed', 'response.failed'] });
  t.same(created.events, ['response.failed']);
  t.notMatch(JSON.stringify(await webhook(created.id)), /whsec_|"secret"/);
  t.match(await refusal(owner.patch(`${list()}/${created.id}`, { url: 'http://192.168.1.1/' })), { param: 'url' });
  t.match(await owner.patch(`${list()}/${created.id}`, { events: ['batch.failed'] }), {
    events: ['batch.failed'],
    url,
  });
  await owner.post(list(), { url });
  t.match(await refusal(owner.post(list(), { url })), { status: 422, code: 'too_many_entries' });
  t.match(await refusal(owner.patch(`${list()}/wh_x`, {})), { status: 404, code: 'resource_not_found' });
  t.match(await refusal(owner.get(`${list()}/wh_x/deliveries`)), { status: 404 });
  t.match(await refusal(owner.delete(`${list()}/wh_x`)), { status: 404 });
  t.match(await refusal(stranger().get(list())), { status: 401 });
});
