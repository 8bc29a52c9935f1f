// Tests webhooks of batches with a real HTTP server and OpenAI's client, which verifies each message: all final states
// of a batch, endpoints that are added later, and a server that is killed.
import { once } from 'node:events';
import OpenAI, { toFile } from 'openai';
import OpenAI7 from 'openai-7';
import Anthropic from '@anthropic-ai/sdk';
import t from 'tap';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { CreatedWebhook, WebhookObject } from '../../src/shared/wire/webhooks.js';
import type { Batch } from '../../src/storage/batch-store.js';
import { eventually } from '../e2e/monolith.js';
import { dataFolder, inside } from '../e2e/stored-server.js';
import { webhookReceiver, type WebhookReceiver } from '../support/alert-receivers.js';
import { openOwned, type Owned } from '../support/owned-server.js';

t.setTimeout(600_000); // the machine may be busy

const WAIT_MS = 120_000;
const model = 'clarke-1.0';
const ENV = { MONOLITH_WEBHOOKS_PUBLIC_ONLY: 'false' };
const { path: folder, remove } = dataFolder();
t.teardown(remove);
let owned: Owned = await openOwned({ env: { ...ENV, MONOLITH_DATA_DIR: folder } });
t.teardown(() => owned.close());
const list = (): string => `/organizations/${owned.organization.id}/webhooks`;
const { secret: key } = await owned.owner.post<CreatedApiKey>(`/organizations/${owned.organization.id}/api-keys`, {
  name: 'k',
  scopes: ['inference', 'batches', 'files.read', 'files.write'],
});
const openai = (): OpenAI => new OpenAI({ baseURL: `${owned.server.url}/v1`, apiKey: key, maxRetries: 0 });
const create = (receiver: WebhookReceiver): Promise<CreatedWebhook> =>
  owned.owner.post<CreatedWebhook>(list(), { url: receiver.url });

async function begin(lines: readonly object[]): Promise<OpenAI.Batch> {
  const text = lines.map((line) => JSON.stringify(line)).join('\n');
  const file = await openai().files.create({ file: await toFile(Buffer.from(text), 'in.jsonl'), purpose: 'batch' });
  return openai().batches.create({
    input_file_id: file.id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
  });
}
const line = (content: string, more: object = {}): object => ({
  custom_id: content,
  method: 'POST',
  url: '/v1/chat/completions',
  body: { model, reasoning_effort: 'none', messages: [{ role: 'user', content }], ...more },
});

/** Requests with long responses, so that the batch runs for a while. */
const longLines = (count: number): object[] =>
  Array.from({ length: count }, (_, at) => ({
    ...line('L: x', { max_completion_tokens: 3_000 }),
    custom_id: String(at),
  }));

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

t.test("the end of each batch is reported once, with a signature that OpenAI's client accepts", async (t) => {
  const receiver = await webhookReceiver(t);
  const { secret } = await create(receiver);
  const completed = await begin([line('A: x')]);
  const failed = await begin([line('A: x'), line('A: x')]);
  const cancelled = await begin([line('L: x', { max_completion_tokens: 10_000 })]);
  await openai().batches.cancel(cancelled.id);
  const anthropic = new Anthropic({ baseURL: owned.server.url, apiKey: key, maxRetries: 0 });
  const messages = await anthropic.messages.batches.create({
    requests: [{ custom_id: 'a', params: { model, max_tokens: 20, messages: [{ role: 'user', content: 'A: x' }] } }],
  });
  t.ok(await eventually(() => receiver.taken.length === 4, WAIT_MS));
  const newer = new OpenAI7({ apiKey: 'x', webhookSecret: secret });
  const ends = new Map<string, string>();
  for (const { body, headers } of receiver.taken) {
    const event = await newer.webhooks.unwrap(body, headers as Record<string, string>);
    ends.set((event.data as { id: string }).id, event.type);
  }
  t.equal(ends.get(completed.id), 'batch.completed');
  t.equal(ends.get(failed.id), 'batch.failed');
  t.equal(ends.get(cancelled.id), 'batch.cancelled');
  t.equal(ends.get(messages.id), 'batch.completed');
  t.equal((await openai().batches.retrieve(completed.id)).status, 'completed', 'the batch has ended by then');
  await new Promise((done) => setTimeout(done, 1_000));
  t.equal(receiver.taken.length, 4);
});

t.test('an expired batch is reported to an endpoint that was added after the batch was created', async (t) => {
  const { id } = await begin(longLines(300));
  const receiver = await webhookReceiver(t);
  await create(receiver);
  t.ok(await eventually(async () => (await openai().batches.retrieve(id)).status === 'in_progress'));
  await inside(folder, async (store) => {
    const batches = store.table<{ batch: Batch }>('batches');
    await store.transaction(() => {
      const row = batches.get(id)!;
      void batches.put(id, { ...row, batch: { ...row.batch, expiresAt: Date.now() } });
    });
  });
  t.ok(await eventually(() => receiver.taken.length === 1, WAIT_MS));
  t.match(receiver.bodies(), [{ type: 'batch.expired', data: { id } }]);
});

t.test('the end of a batch is reported even if the server was killed in the meantime', async (t) => {
  await restart();
  const receiver = await webhookReceiver(t);
  await create(receiver);
  const { id } = await begin(longLines(20));
  t.ok(await eventually(async () => (await openai().batches.retrieve(id)).status === 'in_progress'));
  await restart();
  t.ok(await eventually(() => receiver.taken.length > 0, WAIT_MS));
  t.match(receiver.bodies(), [{ type: 'batch.completed', data: { id } }]);
});
