// Tests the operator API through a dashboard session and through the admin token: organizations, users, models and
// usage.

import t from 'tap';
import type { ApiKeyObject, CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { DashboardModel } from '../../src/shared/wire/models.js';
import type { AuditEntry, OperatorOrganization } from '../../src/shared/wire/organizations.js';
import type { BudgetObject } from '../../src/shared/wire/usage.js';
import type { Me, OperatorUser } from '../../src/shared/wire/users.js';
import { refusal } from '../support/dashboard-client.js';
import { openOwned } from '../support/owned-server.js';
import { eventually } from '../e2e/monolith.js';

const TOKEN = 'an-operator-token-0123';
const port = 20_000 + (process.pid % 20_000);
const {
  server,
  owner,
  organization,
  client: clientOf,
  close,
} = await openOwned({ env: { MONOLITH_ADMIN_TOKEN: TOKEN, MONOLITH_ADMIN_PORT: String(port) } });
t.teardown(close);

interface Answer {
  status: number;
  body: unknown;
  headers: Headers;
}
async function admin(method: string, path: string, body?: object, token: string | null = TOKEN): Promise<Answer> {
  const response = await fetch(`http://127.0.0.1:${port}/admin/api${path}`, {
    method,
    headers: { ...(token === null ? {} : { authorization: `Bearer ${token}` }), 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: await response.json(), headers: response.headers };
}

t.test(
  'the operator API needs the token or an operator session, and the token works only on the admin listener',
  async (t) => {
    for (const [method, path] of [
      ['GET', '/organizations'],
      ['GET', '/users'],
      ['GET', '/models'],
      ['GET', '/usage'],
      ['PATCH', `/organizations/${organization.id}`],
    ] as const) {
      t.match(
        await admin(method, path, method === 'PATCH' ? {} : undefined, null),
        { status: 401, body: { error: { code: 'missing_api_key' } } },
        path,
      );
      t.match(await admin(method, path, method === 'PATCH' ? {} : undefined, `${TOKEN}4`), {
        status: 401,
        body: { error: { code: 'invalid_api_key' } },
      });
    }
    const answer = await admin('GET', '/organizations');
    t.equal(answer.status, 200);
    t.equal(answer.headers.get('access-control-allow-origin'), null);
    const wrongDoor = await fetch(`${server.url}/admin/api/organizations`, {
      headers: { authorization: `Bearer ${TOKEN}` },
    });
    t.equal(wrongDoor.status, 404);
    t.equal(
      (await fetch(`http://127.0.0.1:${port}/v1/models`, { headers: { authorization: `Bearer ${server.key}` } }))
        .status,
      404,
      'the admin listener serves nothing else',
    );
    const member = clientOf();
    await member.signUp({ email: 'plain@example.com' });
    const one = `/operator/organizations/${organization.id}`;
    for (const path of [
      '/operator/organizations',
      `${one}/members`,
      `${one}/api-keys`,
      `${one}/budget`,
      '/operator/users',
      '/operator/models',
      '/operator/usage',
      '/operator/audit-log.csv',
    ]) {
      t.match(await refusal(member.get(path)), { status: 403, code: 'role_not_allowed' }, path);
      t.match(await refusal(clientOf().get(path)), { status: 401, code: 'not_signed_in' });
    }
  },
);

t.test("an organization's members, keys and budget are in one place for operators", async (t) => {
  const path = `/organizations/${organization.id}`;
  await owner.post(`${path}/api-keys`, { name: 'seen' });
  t.match(await admin('GET', `${path}/members`), {
    status: 200,
    body: { data: [{ email: 'owner@example.com', role: 'owner', last_login_at: String }] },
  });
  const keys = await owner.get<ListPage<ApiKeyObject>>(`/operator${path}/api-keys`);
  t.ok(keys.data.some(({ name, temporary }) => name === 'seen' && !temporary));
  t.notMatch(JSON.stringify(keys), /"secret"/);
  t.match(await admin('GET', `${path}/budget`), { status: 200, body: { amount: null, webhook_secret: null } });
  await owner.fetch(`${path}/budget`, {
    method: 'PUT',
    body: { amount: 5, mail: false, webhook_url: 'https://example.com/hook' },
  });
  t.match(await admin('GET', `${path}/budget`), { body: { amount: 5, webhook_url: null, webhook_secret: null } });
  t.match(await admin('PUT', `${path}/budget`, { amount: 20 }), {
    status: 200,
    body: { amount: 20, mail: true, webhook_url: null, webhook_secret: null },
  });
  t.match(await owner.get<BudgetObject>(`${path}/budget`), { amount: 20, webhook_url: 'https://example.com/hook' });
  t.match((await owner.get<ListPage<AuditEntry>>(`${path}/audit-log?action=organization`)).data[0], {
    action: 'organization.budget_changed',
    actor: { type: 'operator_api' },
    detail: { amount: 20 },
  });
  for (const part of ['members', 'api-keys', 'budget'])
    t.match(await admin('GET', `/organizations/org_none/${part}`), { status: 404 });
});

t.test('changed limits and caps of an organization take effect immediately, by token and by session', async (t) => {
  const { secret } = await owner.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, { name: 'k' });
  const limitOf = async (): Promise<[number, string | null]> => {
    const answer = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'tycho-1.0', messages: [{ role: 'user', content: 'A: x' }] }),
    });
    await answer.text();
    return [answer.status, answer.headers.get('x-ratelimit-limit-requests')];
  };
  t.same(await limitOf(), [200, '9999']);
  const set = await admin('PATCH', `/organizations/${organization.id}`, {
    limits: { 'tycho-1.0': { rpm: 7, tpm: null } },
    monthly_token_cap: 1_000_000,
  });
  t.match(set, {
    status: 200,
    body: {
      overrides: { 'tycho-1.0': { rpm: 7, tpm: null } },
      monthly_token_cap: 1_000_000,
      limits: { 'tycho-1.0': { rpm: 7, tpm: null, concurrency: 99 }, 'hal-1.0': { rpm: 9999 } },
      status: 'active',
      active_keys: Number,
      members: 1,
    },
  });
  t.same(await limitOf(), [200, '7']);
  t.match(await owner.patch<OperatorOrganization>(`/operator/organizations/${organization.id}`, { limits: {} }), {
    overrides: {},
    monthly_token_cap: 1_000_000,
  });
  t.same(await limitOf(), [200, '9999']);
  t.match(
    (await owner.get<ListPage<AuditEntry>>(`/organizations/${organization.id}/audit-log`)).data
      .filter(({ action }) => action === 'organization.limits_changed')
      .map(({ actor }) => actor.type),
    ['user', 'operator_api'],
  );
  for (const [body, param] of [
    [{ limits: { nothing: { rpm: 1 } } }, 'limits.nothing'],
    [{ status: 'gone' }, 'status'],
    [{ monthly_token_cap: -1 }, 'monthly_token_cap'],
  ] as const) {
    t.match(await admin('PATCH', `/organizations/${organization.id}`, body), {
      status: 422,
      body: { error: { param } },
    });
  }
  t.match(await admin('PATCH', '/organizations/org_nothing', { status: 'active' }), {
    status: 404,
    body: { error: { code: 'resource_not_found' } },
  });
  const ids: string[] = [];
  for (let after = ''; ; ) {
    const { body } = (await admin('GET', `/organizations?limit=1${after}`)) as { body: ListPage<OperatorOrganization> };
    ids.push(...body.data.map(({ id }) => id));
    if (body.next === null) break;
    after = `&after=${body.next}`;
  }
  t.ok(ids.includes(organization.id));
  t.equal(new Set(ids).size, ids.length);
});

t.test('a password reset link leads to the dashboard', async (t) => {
  const { user } = await owner.get<Me>('/me');
  const [byToken, bySession] = [
    (await admin('POST', `/users/${user.id}/reset-link`)).body,
    await owner.post(`/operator/users/${user.id}/reset-link`),
  ];
  for (const answer of [byToken, bySession]) t.match(answer, { url: `${server.url}/dashboard/reset?token=` });
});

t.test('a locked user is refused, the last operator stays, and operators cannot lock themselves', async (t) => {
  const other = clientOf();
  const { user } = await other.signUp({ email: 'other@example.com' });
  const me = (await owner.get<{ user: { id: string } }>('/me')).user.id;
  t.match(await refusal(owner.patch(`/operator/users/${me}`, { locked: true })), {
    status: 422,
    code: 'invalid_value',
    param: 'locked',
  });
  t.match(
    await admin('PATCH', `/users/${me}`, { operator: false }),
    { status: 422, body: { error: { param: 'operator' } } },
    'the last operator cannot be demoted',
  );
  t.match(await owner.patch<OperatorUser>(`/operator/users/${user.id}`, { locked: true }), {
    id: user.id,
    locked: true,
  });
  t.match(await refusal(other.get('/me')), { status: 401 });
  const listed = (await owner.get<ListPage<OperatorUser>>('/operator/users')).data.find(({ id }) => id === user.id);
  t.match(listed, { locked: true, operator: false, organizations: [{ role: 'owner' }] });
  t.notMatch(JSON.stringify(listed), /hash|scrypt|argon/i);
  t.match(await admin('PATCH', `/users/${user.id}`, { locked: false, operator: true }), {
    status: 200,
    body: { locked: false, operator: true },
  });
  await other.login('other@example.com');
  t.ok((await other.get<ListPage<OperatorUser>>('/operator/users')).data.length >= 2);
  t.match(await other.patch<OperatorUser>(`/operator/users/${me}`, { operator: false }), { operator: false });
  t.match(await refusal(owner.get('/operator/users')), { status: 403 });
  await other.patch(`/operator/users/${me}`, { operator: true });
});

t.test('operators can list and change models and read usage', async (t) => {
  t.match(await owner.get<ListPage<DashboardModel>>('/operator/models'), {
    data: [{ id: 'hal-1.0', state: 'ready' }, {}, {}],
  });
  t.match(
    await owner.patch<DashboardModel>('/operator/models/hal-1.0', { lifecycle: 'deprecated', successor: 'clarke-1.0' }),
    { lifecycle: 'deprecated', deprecated_at: /^\d{4}-/, successor: 'clarke-1.0', retires_at: null },
  );
  t.match(await admin('GET', '/models/hal-1.0'), { status: 200, body: { lifecycle: 'deprecated' } });
  t.match(await admin('PATCH', '/models/nothing', {}), { status: 404, body: { error: { param: 'model' } } });
  const used = () =>
    owner.get<ListPage<{ organization_id: string; model: string; requests: number; input_tokens: number }>>(
      '/operator/usage',
    );
  await eventually(async () =>
    (await used()).data.some((row) => row.organization_id === organization.id && row.requests === 3),
  ); // usage is written with a short delay
  const { data } = await used();
  t.match(
    data.find((row) => row.organization_id === organization.id),
    { model: 'tycho-1.0', requests: 3, input_tokens: Number },
  );
  t.same((await admin('GET', `/usage?organization=${organization.id}`)).body, {
    object: 'list',
    data: data.filter((row) => row.organization_id === organization.id),
    has_more: false,
    next: null,
  });
  t.match(await admin('GET', '/usage?organization=mine'), {
    status: 400,
    body: { error: { code: 'invalid_query_parameter', param: 'organization' } },
  });
  t.match(await admin('GET', '/usage?from=soon'), {
    status: 400,
    body: { error: { code: 'invalid_query_parameter', param: 'from' } },
  });
  t.match(await admin('GET', '/usage?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z'), {
    status: 422,
    body: { error: { param: 'from' } },
  });
});

t.test('a model can be drained and loaded again while the server runs', async (t) => {
  const ask = async (model: string): Promise<unknown> => {
    const answer = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'A: x' }] }),
    });
    const body = (await answer.json()) as { error?: { code: string } };
    return answer.status === 200 ? 200 : body.error?.code;
  };
  const ready = async (): Promise<number> => (await fetch(`${server.url}/readyz`)).status;
  const published = async (): Promise<unknown> =>
    (await fetch(`${server.url}/v1/models/clarke-1.0`, { headers: { authorization: `Bearer ${server.key}` } })).json();
  const before = await published();
  t.match(await admin('POST', '/models/clarke-1.0/drain'), {
    status: 200,
    body: { id: 'clarke-1.0', state: 'unloaded' },
  });
  t.equal(await ask('clarke-1.0'), 'model_unavailable');
  t.same(await published(), before, "the model's published metadata stays the same");
  t.equal(await ask('tycho-1.0'), 200);
  t.equal(await ready(), 200, 'the server stays ready because an operator unloaded the model');
  for (const model of ['hal-1.0', 'tycho-1.0']) await owner.post(`/operator/models/${model}/drain`);
  t.equal(await ask('tycho-1.0'), 'model_unavailable');
  t.match(await admin('POST', '/models/clarke-1.0/load'), { status: 200, body: { state: 'loading' } });
  t.ok(await eventually(async () => (await ask('clarke-1.0')) === 200), 'the model is served again by a new engine');
  t.equal(await ask('tycho-1.0'), 'model_unavailable');
  await admin('POST', '/models/tycho-1.0/load');
  t.equal(await ask('tycho-1.0'), 200);
});

t.test('an address is blocked temporarily after ten wrong tokens', async (t) => {
  const statuses: number[] = [];
  // Five wrong tokens were sent above. Concurrent attempts must not allow more failures than sequential attempts.
  await Promise.all(
    Array.from({ length: 30 }, async (_, i) => {
      statuses.push((await admin('GET', '/users', undefined, `${TOKEN}${i}`)).status);
    }),
  );
  t.same(statuses.sort(), [...Array<number>(5).fill(401), ...Array<number>(25).fill(429)]);
  const refused = await admin('PATCH', `/organizations/${organization.id}`, {});
  t.match(
    refused,
    { status: 429, body: { error: { code: 'too_many_attempts' } } },
    'even the correct token is refused while the address is blocked',
  );
  t.ok(Number(refused.headers.get('retry-after')) >= 1);
  t.match(
    await admin('GET', '/users', undefined, null),
    { status: 401, body: { error: { code: 'missing_api_key' } } },
    'a request without a token is not counted as a guess',
  );
});
