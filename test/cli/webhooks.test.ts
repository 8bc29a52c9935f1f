// Runs `monolith webhooks` as an operator would, while a server uses the data directory. OpenAI's client verifies the
// messages with the printed secrets.
import OpenAI from 'openai';
import t from 'tap';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { WebhookDelivery, WebhookObject } from '../../src/shared/wire/webhooks.js';
import { eventually } from '../e2e/monolith.js';
import { dataFolder } from '../e2e/stored-server.js';
import { webhookReceiver } from '../support/alert-receivers.js';
import { commandHost, type Ended } from '../support/command-host.js';
import { openOwned } from '../support/owned-server.js';

t.setTimeout(300_000); // the machine may be busy

const { path: folder, remove } = dataFolder();
t.teardown(remove);
const ENV = { MONOLITH_WEBHOOKS_PUBLIC_ONLY: 'false', MONOLITH_DATA_DIR: folder };
const owned = await openOwned({ env: ENV });
t.teardown(() => owned.close());
const { secret: key } = await owned.owner.post<CreatedApiKey>(`/organizations/${owned.organization.id}/api-keys`, {
  name: 'k',
});
const client = new OpenAI({ baseURL: `${owned.server.url}/v1`, apiKey: key, maxRetries: 0 });
const monolith = commandHost(t, { ...ENV, HOME: folder });
const own = ['--organization', owned.organization.id];
const webhooks = (...args: string[]): Promise<Ended> => monolith(['webhooks', ...args]);
const listed = async (): Promise<(WebhookObject & { organization_id: string })[]> =>
  JSON.parse((await webhooks('list', '--json')).out) as (WebhookObject & { organization_id: string })[];

t.test('an endpoint is created, rotated, changed, disabled and deleted while a server runs', async (t) => {
  const receiver = await webhookReceiver(t);
  const created = await webhooks('create', receiver.url, '--events', 'response.completed,batch.failed', ...own);
  t.match(created, { status: 0, err: '' });
  t.match(created.out, /^whsec_\S+\n$/);
  const first = created.out.trim();
  t.match(await listed(), [
    {
      url: receiver.url,
      events: ['response.completed', 'batch.failed'],
      disabled: null,
      organization_id: owned.organization.id,
    },
  ]);
  const next = async (): Promise<(secret: string) => Promise<unknown>> => {
    const before = receiver.taken.length;
    await client.responses.create({ model: 'clarke-1.0', input: 'A: x', background: true });
    t.ok(await eventually(() => receiver.taken.length > before));
    const { body, headers } = receiver.taken.at(-1)!;
    return async (secret) => client.webhooks.unwrap(body, headers as Record<string, string>, secret);
  };
  t.match(await (await next())(first), { type: 'response.completed' });

  const rotated = await webhooks('rotate', receiver.url, '--overlap', '7d');
  t.match(rotated.out, /^whsec_\S+\n$/);
  const unwrap = await next();
  t.match(await unwrap(first), { type: 'response.completed' });
  t.match(await unwrap(rotated.out.trim()), { type: 'response.completed' });
  const [{ id, previous_secrets_until: until }] = (await listed()) as unknown as [WebhookObject];
  t.ok(Math.abs(Date.parse(until!) - Date.now() - 7 * 86_400_000) < 600_000);
  t.match(
    (await webhooks('list')).out,
    new RegExp(`${id}.*enabled  response\\.completed,batch\\.failed.*${until!.slice(0, 10)}`),
  );

  t.ok(await eventually(async () => /delivered/.test((await webhooks('deliveries', id)).out)));
  const deliveries = JSON.parse((await webhooks('deliveries', id, '--json')).out) as WebhookDelivery[];
  t.match(deliveries, [{ type: 'response.completed', attempts: 1 }, { type: 'response.completed' }]);

  t.match((await webhooks('change', id, '--url', `${receiver.url}/new`, '--events', 'batch.failed')).out, /^changed /);
  t.match((await webhooks('disable', id)).out, /^disabled /);
  t.match(await listed(), [{ url: `${receiver.url}/new`, events: ['batch.failed'], disabled: 'disabled by an admin' }]);
  t.match((await webhooks('enable', id)).out, /^enabled /);
  t.match(await listed(), [{ disabled: null }]);
  t.match((await webhooks('delete', id)).out, /^deleted /);
  t.same(await listed(), []);
  const { data: log } = await owned.owner.get<{ data: { action: string; actor: { type: string } }[] }>(
    `/organizations/${owned.organization.id}/audit-log?action=webhook`,
  );
  t.same(
    log.map(({ action, actor }) => `${action} ${actor.type}`),
    [
      'webhook.deleted command_line',
      'webhook.changed command_line',
      'webhook.changed command_line',
      'webhook.changed command_line',
      'webhook.secret_rotated command_line',
      'webhook.created command_line',
    ],
  );
});

t.test('an invalid command changes nothing and names what is wrong', async (t) => {
  await webhooks('create', 'http://a.example', ...own);
  await webhooks('create', 'http://a.example', ...own);
  for (const [args, err] of [
    [['create'], /create needs a URL/],
    [['create', 'ftp://a.example'], /must be an http:\/\/ or https:\/\/ address/],
    [['create', 'http://b.example', '--events', 'nope'], /"nope" is not one of response\.completed/],
    [['create', 'http://b.example', '--organization', 'nope'], /there is no organization "nope"/],
    [['create', 'http://b.example', '--overlap', '1d'], /--overlap is only valid with rotate/],
    [['rotate', 'http://a.example'], /2 endpoints match; use the ID: wh_\w+, wh_\w+/],
    [['delete', 'http://a.example', '--json'], /--json is only valid with list, create, rotate, deliveries/],
    [['rotate', 'nope'], /there is no endpoint "nope"/],
    [['delete'], /delete needs an endpoint/],
    [['list', 'x'], /x/],
    [['nope'], /expected list, create, .* or deliveries, not "nope"/],
  ] as const)
    t.match(await webhooks(...args), { status: 2, out: '', err }, args.join(' '));
  const [{ id }] = (await listed()) as unknown as [WebhookObject];
  t.match(await webhooks('rotate', id, '--overlap', '31d'), { status: 2, err: /--overlap takes 0 to 30d/ });
  t.match(await webhooks('change', id), { status: 2, err: /change needs --url or --events/ });
  t.equal((await listed()).length, 2);
});

t.test('a private address is refused if only public ones are allowed', async (t) => {
  const strict = commandHost(t, { ...ENV, HOME: folder, MONOLITH_WEBHOOKS_PUBLIC_ONLY: 'true' });
  t.match(await strict(['webhooks', 'create', 'http://10.0.0.1/hook', ...own]), {
    status: 2,
    err: /`url` must be a public internet address/,
  });
});

t.test("a command without the server's choice of keys is refused and changes no key", async (t) => {
  const [{ id }] = (await listed()) as unknown as [WebhookObject];
  const other = commandHost(t, { ...ENV, HOME: folder, MONOLITH_SECRETS_SIGNING_KEYS: 'ab'.repeat(32) });
  const refused = { status: 1, out: '', err: /does not use the secrets\.signing_keys setting/ };
  t.match(await other(['webhooks', 'create', 'http://sealed.example', ...own]), refused);
  t.match(await other(['webhooks', 'rotate', id]), refused);
  t.match(await webhooks('rotate', id), { status: 0 }, "the server's key is still the current one");
});
