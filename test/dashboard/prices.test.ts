// Tests token prices: operators set the prices, and the usage pages and table show costs at current prices.
import t from 'tap';
import OpenAI from 'openai';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { AuditEntry } from '../../src/shared/wire/organizations.js';
import type { PriceTable, UsagePage } from '../../src/shared/wire/usage.js';
import { refusal } from '../support/dashboard-client.js';
import { openOwned } from '../support/owned-server.js';
import { eventually } from '../e2e/monolith.js';

t.setTimeout(300_000); // the machine may be busy

const { server, owner, organization, client: clientOf, close } = await openOwned();
t.teardown(close);
const PATH = `/organizations/${organization.id}`;
const put = async (body: unknown): Promise<PriceTable> => {
  const response = await owner.fetch('/operator/prices', { method: 'PUT', body });
  if (response.status !== 200)
    throw Object.assign(new Error(), {
      status: response.status,
      ...((await response.json()) as { error: object }).error,
    });
  return (await response.json()) as PriceTable;
};

t.test('usage has a cost once prices are set, and durations', async (t) => {
  t.same(await owner.get(`${PATH}/prices`), { currency: '', models: {} });
  const { secret } = await owner.post<CreatedApiKey>(`${PATH}/api-keys`, { name: 'k' });
  const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: secret, maxRetries: 0 });
  const { usage } = await openai.chat.completions.create({
    model: 'tycho-1.0',
    messages: [{ role: 'user', content: 'A' }],
  });
  const of = async (query = ''): Promise<UsagePage['data'][number] | undefined> =>
    (await owner.get<UsagePage>(`${PATH}/usage${query}`)).data[0];
  t.ok(await eventually(async () => (await of())?.requests === 1));
  const row = (await of())!;
  t.match(row, { cost: null, answered: 1 });
  t.ok(
    row.first_token_ms <= row.duration_ms && Math.abs(row.first_token_ms + row.decode_ms - row.duration_ms) <= 1,
    'the durations are consistent with each other',
  );
  const prices = { currency: 'EUR', models: { 'tycho-1.0': { input: 1_000, cached_input: 0, output: 10_000 } } };
  t.same(await put(prices), prices);
  t.same(await owner.get(`${PATH}/prices`), prices);
  const cached = usage!.prompt_tokens_details?.cached_tokens ?? 0;
  t.equal(
    (await of())!.cost,
    ((usage!.prompt_tokens - cached) * 1_000 + usage!.completion_tokens * 10_000) / 1e6,
    'the cost includes usage from before the prices were set',
  );
  t.equal(await of('?models=hal-1.0'), undefined);
  t.match((await owner.get<ListPage<{ cost: number }>>('/operator/usage')).data, [{ cost: (await of())!.cost }]);
  const csv = await (await owner.fetch(`${PATH}/usage.csv`)).text();
  t.match(csv.split('\r\n')[0], /,cost$/);
  t.match(csv.split('\r\n')[1], new RegExp(`,${(await of())!.cost}$`));
  t.match((await owner.get<ListPage<AuditEntry>>('/operator/audit-log')).data[0], {
    action: 'prices.changed',
    detail: prices,
  });
  t.same(await put({ currency: 'EUR', models: {} }), { currency: '', models: {} });
  t.equal((await of())!.cost, null);
});

t.test('prices must not be negative, and only operators may set them', async (t) => {
  await t.rejects(put({ currency: 'EUR', models: { m: { input: -1, cached_input: 0, output: 0 } } }), {
    status: 422,
  } as never);
  await t.rejects(put({ currency: 'EUR', models: { m: { input: 1 } } }), { status: 400 } as never);
  await t.rejects(put({ currency: 'x'.repeat(17), models: {} }), { status: 422 } as never);
  const guest = clientOf();
  const { organization: other } = await guest.signUp();
  t.match(await refusal(guest.get('/operator/prices')), { status: 403 });
  t.match(await refusal(guest.get(`${PATH}/prices`)), { status: 404 });
  t.same(await guest.get(`/organizations/${other.id}/prices`), { currency: '', models: {} });
});
