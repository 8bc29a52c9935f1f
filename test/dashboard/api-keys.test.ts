// Tests the dashboard's API key routes (…/api-keys): permissions by role, secrets that are shown only once, and the
// error codes of refused requests.

import OpenAI from 'openai';
import t from 'tap';
import { openOwned, type Owned } from '../support/owned-server.js';
import { refusal } from '../support/dashboard-client.js';
import type { ApiKeyObject, CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { AuditEntry, InviteObject, Role } from '../../src/shared/wire/organizations.js';

t.setTimeout(300_000); // the machine may be busy

const { server, owner, organization, client: clientOf, close } = await openOwned();
t.teardown(close);
const LIST = `/organizations/${organization.id}/api-keys`;
const of = (key: string) => ({ authorization: `Bearer ${key}` });
const status = async (key: string): Promise<unknown> => {
  const response = await fetch(`${server.url}/v1/models`, { headers: of(key) });
  return response.status === 200 ? 200 : ((await response.json()) as { error: { code: string } }).error.code;
};

async function member(role: Role): Promise<Owned['owner']> {
  const invite = await owner.post<InviteObject>(`/organizations/${organization.id}/invites`, {
    email: `${role}@example.com`,
    role,
  });
  const token = new URL(invite.url as string).searchParams.get('token') as string;
  const client = clientOf();
  await client.signUp({ email: `${role}@example.com`, invite: token });
  return client;
}

t.test('a key can be created, used, changed, rotated and revoked, and its secret is returned only once', async (t) => {
  const made = await owner.post<CreatedApiKey>(LIST, {
    name: 'ci',
    models: ['tycho-1.0'],
    scopes: ['inference', 'models.read'],
    limits: { '*': { rpm: 5 } },
    expires_at: new Date(Date.now() + 86_400_000).toISOString(),
  });
  t.match(made, {
    id: /^key_/,
    organization_id: organization.id,
    name: 'ci',
    prefix: made.secret.slice(0, 11),
    last4: made.secret.slice(-4),
    status: 'active',
    models: ['tycho-1.0'],
    scopes: ['inference', 'models.read'],
    limits: { '*': { rpm: 5 } },
    revoked_at: null,
    rotated_from: null,
  });
  t.equal(await status(made.secret), 200);
  const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: made.secret, maxRetries: 0 });
  t.ok(
    (await openai.chat.completions.create({ model: 'tycho-1.0', messages: [{ role: 'user', content: 'A: x' }] }))
      .choices[0]?.message.content,
    'a completion succeeds with a newly created key',
  );
  const page = await owner.get<ListPage<ApiKeyObject>>(LIST);
  t.equal(page.data[0]?.id, made.id);
  t.notOk(JSON.stringify(page).includes(made.secret.slice(12)), 'lists do not contain the secret');

  t.match(
    await owner.patch<ApiKeyObject>(`${LIST}/${made.id}`, {
      name: 'renamed',
      limits: null,
      expires_at: null,
      models: ['*'],
    }),
    { name: 'renamed', limits: null, expires_at: null, models: ['*'], scopes: ['inference', 'models.read'] },
  );
  const next = await owner.post<CreatedApiKey>(`${LIST}/${made.id}/rotate`, { overlap_seconds: 60 });
  t.match(next, { rotated_from: made.id, name: 'renamed', models: ['*'] });
  t.equal(await status(made.secret), 200, 'the old key stays valid during the overlap');
  t.equal(await status(next.secret), 200);
  t.match(await owner.delete<ApiKeyObject>(`${LIST}/${made.id}`), {
    id: made.id,
    status: 'revoked',
    revoked_at: /^\d{4}-/,
  });
  t.equal(await status(made.secret), 'api_key_revoked', 'the old key is refused immediately after it is revoked');
  const gone = await owner.post<CreatedApiKey>(`${LIST}/${next.id}/rotate`, { overlap_seconds: 0 });
  t.equal(await status(next.secret), 'api_key_revoked');
  t.equal(await status(gone.secret), 200);
  t.match(await refusal(owner.post(`${LIST}/${made.id}/rotate`, {})), { status: 422, code: 'invalid_value' });
  const log = await owner.get<ListPage<AuditEntry>>(`/organizations/${organization.id}/audit-log`).catch(() => null);
  if (log !== null) t.ok(log.data.some(({ action, target }) => action === 'api_key.revoked' && target === made.id));
});

t.test('pagination of the key list returns every key once and then ends', async (t) => {
  for (let i = 0; i < 3; i++) await owner.post(LIST, { name: `n${i}` });
  const seen: string[] = [];
  for (let after = ''; ; ) {
    const page = await owner.get<ListPage<ApiKeyObject>>(`${LIST}?limit=2${after}`);
    t.equal(page.has_more, page.next !== null);
    seen.push(...page.data.map(({ id }) => id));
    if (page.next === null) break;
    after = `&after=${page.next}`;
  }
  t.equal(new Set(seen).size, seen.length);
  t.ok(seen.length >= 6);
  t.match(await refusal(owner.get(`${LIST}?after=key_nothing`)), {
    status: 404,
    code: 'item_not_found',
    param: 'after',
  });
});

t.test('an invalid request is refused with an error that names the field', async (t) => {
  for (const [body, error] of [
    [{}, { status: 400, code: 'missing_required_parameter', param: 'name' }],
    [{ name: 5 }, { status: 400, code: 'invalid_type', param: 'name' }],
    [{ name: 'x'.repeat(129) }, { status: 422, code: 'string_too_long', param: 'name' }],
    [
      { name: 'x', models: ['gpt-9'] },
      { status: 422, code: 'invalid_value', param: 'models[0]' },
    ],
    [
      { name: 'x', models: ['*', 'hal-1.0'] },
      { status: 422, code: 'invalid_value', param: 'models[0]' },
    ],
    [
      { name: 'x', scopes: ['all'] },
      { status: 422, code: 'invalid_value', param: 'scopes[0]' },
    ],
    [
      { name: 'x', expires_at: 'soon' },
      { status: 422, code: 'invalid_value', param: 'expires_at' },
    ],
    [
      { name: 'x', expires_at: '2020-01-01T00:00:00Z' },
      { status: 422, code: 'invalid_value', param: 'expires_at' },
    ],
    [
      { name: 'x', limits: { 'hal-1.0': { rpm: 0 } } },
      { status: 422, code: 'value_out_of_range' },
    ],
    [
      { name: 'x', limits: { 'gpt-9': { rpm: 1 } } },
      { status: 422, code: 'invalid_value', param: 'limits.gpt-9' },
    ],
    [
      { name: 'x', limits: { '*': { rpn: 1 } } },
      {
        status: 422,
        code: 'invalid_value',
        param: 'limits.*.rpn',
        message: 'limits.*.rpn is not a limit; the limits are rpm, tpm, concurrency.',
      },
    ],
  ] as const) {
    t.match(await refusal(owner.post(LIST, body)), error, JSON.stringify(body).slice(0, 60));
  }
  const { id } = await owner.post<CreatedApiKey>(LIST, { name: 'r' });
  t.match(await refusal(owner.post(`${LIST}/${id}/rotate`, { overlap_seconds: 31 * 86_400 })), {
    status: 422,
    code: 'value_out_of_range',
    param: 'overlap_seconds',
  });
  t.match(await refusal(owner.post(LIST)), { status: 400, code: 'invalid_body' }, 'creating a key requires a body');
  t.match(
    await owner.post<CreatedApiKey>(`${LIST}/${id}/rotate`),
    { rotated_from: id, secret: /^sk-/ },
    'rotating a key needs no body because all its fields are optional',
  );
});

t.test(
  'viewers read keys, developers change their own, admins change all, and other organizations get 404',
  async (t) => {
    const [viewer, developer, admin] = [await member('viewer'), await member('developer'), await member('admin')];
    const owners = await owner.post<CreatedApiKey>(LIST, { name: 'of the owner' });
    t.ok((await viewer.get<ListPage<ApiKeyObject>>(LIST)).data.length > 0);
    t.match(await refusal(viewer.post(LIST, { name: 'x' })), { status: 403, code: 'role_not_allowed' });
    const own = await developer.post<CreatedApiKey>(LIST, { name: 'own' });
    t.match(await developer.patch<ApiKeyObject>(`${LIST}/${own.id}`, { name: 'still own' }), { name: 'still own' });
    const theirs = `${LIST}/${owners.id}`;
    for (const call of [
      () => developer.delete(theirs),
      () => developer.patch(theirs, { name: 'x' }),
      () => developer.post(`${theirs}/rotate`, {}),
    ]) {
      t.match(await refusal(call()), { status: 403, code: 'role_not_allowed' });
    }
    t.match(await admin.delete<ApiKeyObject>(`${LIST}/${own.id}`), { status: 'revoked' });

    const stranger = clientOf();
    const { organization: foreign } = await stranger.signUp();
    for (const path of [
      LIST,
      `/organizations/${organization.id}/responses`,
      `/organizations/${organization.id}/models`,
    ]) {
      t.match(await refusal(stranger.get(path)), { status: 404, code: 'resource_not_found' }, path);
    }
    t.match(
      await refusal(stranger.delete(`/organizations/${foreign.id}/api-keys/${owners.id}`)),
      { status: 404, code: 'resource_not_found' },
      "a key cannot be deleted through another organization's path",
    );
    t.match(await refusal(clientOf().get(LIST)), { status: 401, code: 'not_signed_in' });
    const withKey = await fetch(`${server.url}/dashboard/api${LIST}`, { headers: of(owners.secret) });
    t.equal(withKey.status, 401, 'an API key does not authenticate dashboard requests');
  },
);

t.test('the model list has the models that the organization may use, with their metadata', async (t) => {
  const page = await owner.get<ListPage<Record<string, unknown>>>(`/organizations/${organization.id}/models`);
  t.match(page.data[0], {
    id: 'hal-1.0',
    lifecycle: 'active',
    state: 'ready',
    successor: null,
    parameters: Number,
    quantization: String,
    file_bytes: Number,
  });
  t.equal(page.data.length, 3);
});
