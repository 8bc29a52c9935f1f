// Tests how decision requests are counted by a real server, with LMDB and with PostgreSQL: usage rows, request log,
// rate limits, budgets and key scopes.
import t from 'tap';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { UsagePage } from '../../src/shared/wire/usage.js';
import { eventually } from '../e2e/monolith.js';
import { onBothStores } from '../support/both-stores.js';
import { startDashboard } from '../support/dashboard-server.js';

t.setTimeout(300_000); // password hashing is slow on a busy machine

onBothStores(async (t, store) => {
  const dashboard = await startDashboard({ ...store, accounts: { signup: 'open' }, limits: { tpm: 500, rpm: 50 } });
  t.teardown(() => dashboard.close());
  const owner = dashboard.client();
  const {
    organization: { id: org },
  } = await owner.signUp({ email: 'owner@example.com' });
  const path = `/organizations/${org}`;
  const key = (more: object = {}): Promise<CreatedApiKey> =>
    owner.post<CreatedApiKey>(`${path}/api-keys`, { name: 'test', ...more });
  interface Answered {
    status: number;
    headers: Headers;
    body: { usage?: { total_tokens: number; input_tokens: number }; error?: { code: string } };
  }
  const decide = async (secret: string, count: number): Promise<Answered> => {
    const response = await fetch(`${dashboard.url}/v1/decisions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'hal-1.0',
        input: 'The boats are red.',
        questions: Array(count).fill({ type: 'predicate', instructions: 'It is about boats.' }),
      }),
    });
    return { status: response.status, headers: response.headers, body: (await response.json()) as Answered['body'] };
  };
  const row = async (): Promise<UsagePage['data'][number] | undefined> =>
    (await owner.get<UsagePage>(`${path}/usage?bucket=day&group_by=endpoint`)).data.find(
      ({ endpoint }) => endpoint === '/v1/decisions',
    );
  const { secret } = await key();

  await t.test('a request with several questions is one request with all their tokens', async (t) => {
    const answer = await decide(secret, 2);
    t.equal(answer.status, 200, JSON.stringify(answer.body));
    const { total_tokens: total, input_tokens: tokens } = answer.body.usage!;
    t.ok(await eventually(async () => (await row())?.requests === 1));
    t.match(await row(), { requests: 1, input_tokens: tokens, output_tokens: 2, errors: 0 });
    t.equal(answer.headers.get('x-ratelimit-remaining-tokens'), String(500 - total));
    t.equal(answer.headers.get('x-ratelimit-remaining-requests'), '49');
  });

  await t.test('the request log shows the number of questions', async (t) => {
    interface Logged {
      data: { endpoint: string; outcome: string; input_tokens: number }[];
    }
    const found = async (): Promise<Logged['data'][number] | undefined> =>
      (await owner.get<Logged>(`${path}/requests`)).data.find(({ endpoint }) => endpoint === '/v1/decisions');
    t.ok(await eventually(async () => (await found()) !== undefined));
    t.match(await found(), { endpoint: '/v1/decisions', outcome: 'completed' });
  });

  await t.test('requests over the token limit are refused, and a key needs the scope `inference`', async (t) => {
    t.match(await decide(secret, 60), { status: 429, body: { error: { code: 'request_exceeds_tpm_limit' } } });
    const reader = await key({ scopes: ['models.read'] });
    t.match(await decide(reader.secret, 1), { status: 403, body: { error: { code: 'endpoint_not_allowed' } } });
    t.match(await row(), { requests: 1 });
  });
});
