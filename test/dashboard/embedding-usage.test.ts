// Tests how embeddings requests are counted by a real server, with LMDB and with PostgreSQL: usage rows, price, request
// log, rate limits and budgets.
import t from 'tap';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { UsagePage } from '../../src/shared/wire/usage.js';
import { eventually } from '../e2e/monolith.js';
import { onBothStores } from '../support/both-stores.js';
import { startDashboard } from '../support/dashboard-server.js';
import { embeddingModel } from '../support/pooling-model.js';

t.setTimeout(300_000); // password hashing is slow on a busy machine

const file = embeddingModel();
t.teardown(() => file.remove());

onBothStores(async (t, store) => {
  const dashboard = await startDashboard({
    ...store,
    accounts: { signup: 'open' },
    model: { embed: file.path },
    limits: { tpm: 200, rpm: 50 },
  });
  t.teardown(() => dashboard.close());
  const owner = dashboard.client();
  const {
    organization: { id: org },
  } = await owner.signUp({ email: 'owner@example.com' });
  const path = `/organizations/${org}`;
  const key = (more: object = {}): Promise<CreatedApiKey> =>
    owner.post<CreatedApiKey>(`${path}/api-keys`, { name: 'test', ...more });
  const embed = async (
    secret: string,
    body: object,
  ): Promise<{
    status: number;
    headers: Headers;
    body: { usage?: { total_tokens: number }; error?: { code: string } };
  }> => {
    const response = await fetch(`${dashboard.url}/v1/embeddings`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'embed', ...body }),
    });
    return { status: response.status, headers: response.headers, body: (await response.json()) as never };
  };
  const { secret } = await key();

  await t.test('usage rows contain the tokens, and no output', async (t) => {
    const answer = await embed(secret, { input: ['The harbour master counted the boats.', 'Again.'] });
    t.equal(answer.status, 200);
    const tokens = answer.body.usage!.total_tokens;
    const row = async (): Promise<UsagePage['data'][number] | undefined> =>
      (await owner.get<UsagePage>(`${path}/usage?bucket=day&group_by=endpoint`)).data.find(
        ({ endpoint }) => endpoint === '/v1/embeddings',
      );
    t.ok(await eventually(async () => (await row())?.requests === 1));
    t.match(await row(), { requests: 1, input_tokens: tokens, output_tokens: 0, errors: 0 });
    t.equal(answer.headers.get('x-ratelimit-remaining-tokens'), String(200 - tokens), 'the tokens count');
    t.equal(answer.headers.get('x-ratelimit-remaining-requests'), '49');
  });

  await t.test('the request log shows the number of inputs', async (t) => {
    interface Logged {
      data: { id: string; endpoint: string; outcome: string; parameters: Record<string, unknown> | null }[];
    }
    const found = async (): Promise<Logged['data'][number] | undefined> =>
      (await owner.get<Logged>(`${path}/requests`)).data.find(({ endpoint }) => endpoint === '/v1/embeddings');
    t.ok(await eventually(async () => (await found()) !== undefined));
    t.match(await found(), { endpoint: '/v1/embeddings', outcome: 'completed' });
  });

  await t.test('requests over the token limit are refused, and refused requests do not count', async (t) => {
    const refused = await embed(secret, { input: Array(300).fill('boats') });
    t.match(refused, { status: 429, body: { error: { code: 'request_exceeds_tpm_limit' } } });
    t.equal((await embed(secret, { input: 'x', dimensions: 3 })).status, 422);
    const row = async (): Promise<UsagePage['data'][number] | undefined> =>
      (await owner.get<UsagePage>(`${path}/usage?bucket=day&group_by=endpoint`)).data.find(
        ({ endpoint }) => endpoint === '/v1/embeddings',
      );
    t.ok(await eventually(async () => (await row())?.rate_limited === 1));
    t.match(await row(), { requests: 1, errors: 1 });
  });

  await t.test('a key needs the scope `inference` and access to the model', async (t) => {
    const reader = await key({ scopes: ['models.read'] });
    t.match(await embed(reader.secret, { input: 'x' }), {
      status: 403,
      body: { error: { code: 'endpoint_not_allowed' } },
    });
    const allowed = await key({ scopes: ['inference'], models: ['embed'] });
    t.equal((await embed(allowed.secret, { input: 'x' })).status, 200);
  });
});
