// Tests service accounts on a real server, on LMDB and on PostgreSQL: who manages them, what their keys may do, where
// their names appear, and that they are not users.
import t from 'tap';
import type { ApiKeyObject, CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { ListPage } from '../../src/shared/wire/list.js';
import type {
  AuditEntry,
  InviteObject,
  MemberObject,
  Role,
  ServiceAccountObject,
} from '../../src/shared/wire/organizations.js';
import type { UsagePage } from '../../src/shared/wire/usage.js';
import { eventually } from '../e2e/monolith.js';
import { onBothStores } from '../support/both-stores.js';
import { refusal } from '../support/dashboard-client.js';
import type { DashboardClient } from '../support/dashboard-client.js';
import { startDashboard } from '../support/dashboard-server.js';

t.setTimeout(300_000); // password hashing is slow on a busy machine

onBothStores(async (t, store) => {
  const dashboard = await startDashboard({ ...store, accounts: { signup: 'open' } });
  t.teardown(() => dashboard.close());
  const owner = dashboard.client();
  const {
    user: ownerUser,
    organization: { id: org },
  } = await owner.signUp({ email: 'owner@example.com' });
  const member = async (role: Role): Promise<{ client: DashboardClient; id: string }> => {
    const { url } = await owner.post<InviteObject>(`/organizations/${org}/invites`, {
      email: `${role}@example.com`,
      role,
    });
    const client = dashboard.client();
    const invite = new URL(url ?? '').searchParams.get('token') ?? '';
    return { client, id: (await client.signUp({ email: `${role}@example.com`, invite })).user.id };
  };
  const admin = await member('admin');
  const developer = await member('developer');
  const stranger = dashboard.client();
  const { organization: foreign } = await stranger.signUp({ email: 'stranger@example.com' });

  const path = `/organizations/${org}`;
  const list = async (): Promise<ServiceAccountObject[]> =>
    (await developer.client.get<ListPage<ServiceAccountObject>>(`${path}/service-accounts`)).data;
  const newKey = (by: DashboardClient, account: string): Promise<CreatedApiKey> =>
    by.post(`${path}/api-keys`, { name: 'ci', service_account_id: account });
  const said = async (secret: string): Promise<string> => {
    const response = await fetch(`${dashboard.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'hal-1.0', max_tokens: 1, messages: [{ role: 'user', content: 'A' }] }),
    });
    const { error } = (await response.json()) as { error?: { code: string } };
    return error === undefined ? String(response.status) : `${response.status} ${error.code}`;
  };

  await t.test('admins create, rename and delete them; developers only see them', async (t) => {
    const made = await admin.client.post<ServiceAccountObject>(`${path}/service-accounts`, { name: ' build ' });
    t.match(made, {
      id: /^svc_[0-9A-Za-z]{24}$/,
      organization_id: org,
      name: 'build',
      role: 'developer',
      disabled: false,
      created_by: admin.id,
      active_keys: 0,
    });
    t.match(await refusal(admin.client.post(`${path}/service-accounts`, { name: 'build' })), {
      status: 422,
      param: 'name',
    });
    for (const role of ['owner', 'boss'])
      t.match(await refusal(owner.post(`${path}/service-accounts`, { name: 'x', role })), { param: 'role' });
    const one = `${path}/service-accounts/${made.id}`;
    t.match(await admin.client.patch(one, { name: 'Build', role: 'viewer' }), { name: 'Build', role: 'viewer' });
    t.same(await developer.client.get(one), (await list())[0]);
    const refused = { status: 403, code: 'role_not_allowed' };
    t.match(await refusal(developer.client.post(`${path}/service-accounts`, { name: 'x' })), refused);
    t.match(await refusal(developer.client.patch(one, { disabled: true })), refused);
    t.match(await refusal(developer.client.delete(one)), refused);
    t.match(
      await refusal(newKey(admin.client, made.id)),
      { status: 403, message: /viewer role cannot have API keys/ },
      'the role that keys need is the same as for users',
    );
    t.same(await admin.client.delete(one), { revoked_keys: 0 });
    t.match(await refusal(admin.client.delete(one)), { status: 404, code: 'resource_not_found' });
    t.same(await list(), []);
  });

  await t.test('it is no user: it does not sign in, and it is neither a member nor an owner', async (t) => {
    const made = await owner.post<ServiceAccountObject>(`${path}/service-accounts`, { name: 'robot', role: 'admin' });
    const { data: members } = await owner.get<ListPage<MemberObject>>(`${path}/members`);
    t.same(
      members.map(({ email }) => email),
      ['owner@example.com', 'admin@example.com', 'developer@example.com'],
    );
    for (const email of [made.id, `${made.id}@example.com`, 'robot'])
      t.match(await refusal(dashboard.client().login(email, 'x')), { status: 401, code: 'invalid_credentials' });
    t.match(await refusal(owner.post(`${path}/invites`, { email: made.id, role: 'viewer' })), { param: 'email' });
    t.match(await refusal(owner.patch(`${path}/members/${made.id}`, { role: 'owner' })), { status: 404 });
    t.match(await refusal(owner.delete(`${path}/members/${made.id}`)), { status: 404 });
    t.match(
      await refusal(owner.delete(`${path}/members/${ownerUser.id}`)),
      { status: 422, param: 'user' },
      'it does not count as an owner',
    );
    const { data: users } = await owner.get<ListPage<{ id: string }>>('/operator/users');
    t.notOk(users.some(({ id }) => id === made.id));
    t.match(await owner.get(`/operator/organizations/${org}/service-accounts`), { data: [{ id: made.id }] });
  });

  await t.test('its keys work, are named everywhere, and survive the admin who created them', async (t) => {
    const [account] = await list();
    const { id } = account!;
    t.match(await refusal(newKey(developer.client, id)), { status: 403, code: 'role_not_allowed' });
    t.match(await refusal(newKey(admin.client, 'svc_unknown')), { status: 404 });
    const key = await newKey(admin.client, id);
    t.equal(key.created_by, id);
    t.equal(await said(key.secret), '200');
    t.match(
      await refusal(developer.client.post(`${path}/api-keys/${key.id}/rotate`, {})),
      { status: 403, code: 'role_not_allowed' },
      'only admins change its keys',
    );
    const next = await admin.client.post<CreatedApiKey>(`${path}/api-keys/${key.id}/rotate`, { overlap_seconds: 0 });
    t.equal(next.created_by, id, 'the successor belongs to the service account');
    t.equal(await said(key.secret), '401 api_key_revoked');

    await owner.delete(`${path}/members/${admin.id}`);
    t.equal(await said(next.secret), '200', 'the key works after its creator has left');
    t.match(await list(), [{ active_keys: 1 }]);
    t.match(await owner.get(`${path}/api-keys/`.slice(0, -1)), { data: [{ id: next.id, created_by: id }, {}] });

    const usage = (): Promise<UsagePage> => owner.get(`${path}/usage?group_by=member`);
    t.ok(await eventually(async () => (await usage()).data.some(({ member_id: member }) => member === id)));
    const csv = await (await owner.fetch(`${path}/usage.csv?group_by=member`)).text();
    t.match(csv, new RegExp(`,${id},,robot\\r\\n`));
    await owner.fetch('/operator/prices', {
      method: 'PUT',
      body: { currency: 'EUR', models: { 'hal-1.0': { input: 1e6, cached_input: 1e6, output: 1e6 } } },
    });
    const budget = async (part: string, amount: number | null): Promise<unknown> =>
      (await owner.fetch(`${path}/budgets/${part}`, { method: 'PUT', body: { amount } })).json();
    t.match(await budget(id, 0.01), { scope: 'member', id, amount: 0.01, api_keys: [next.id, key.id] });
    t.match(await budget('svc_unknown', 1), { error: { code: 'resource_not_found' } });
    t.ok(
      await eventually(async () => (await said(next.secret)).startsWith('4')),
      'a spent budget refuses its requests',
    );
    await budget(id, null);
    t.ok(await eventually(async () => (await said(next.secret)) === '200'));
  });

  await t.test('disabling it refuses its keys until it is enabled; deleting it revokes them', async (t) => {
    const [account] = await list();
    const one = `${path}/service-accounts/${account!.id}`;
    const { secret, id: keyId } = await newKey(owner, account!.id);
    t.equal(await said(secret), '200');
    await owner.patch(one, { disabled: true });
    t.equal(await said(secret), '403 service_account_disabled');
    t.match(await refusal(newKey(owner, account!.id)), { status: 422, param: 'service_account_id' });
    await owner.patch(one, { disabled: false });
    t.equal(await said(secret), '200');
    t.same(await owner.delete(one), { revoked_keys: 2 });
    t.equal(await said(secret), '401 api_key_revoked');
    const { data: keys } = await owner.get<ListPage<ApiKeyObject>>(`${path}/api-keys`);
    t.ok(keys.filter(({ created_by: by }) => by === account!.id).every(({ status }) => status === 'revoked'));
    const { data: entries } = await owner.get<ListPage<AuditEntry>>(`${path}/audit-log?limit=100`);
    t.same(
      entries
        .filter(({ action }) => action.startsWith('service_account.'))
        .map(({ action, actor, detail }) => `${action} ${actor.email?.split('@')[0]} ${JSON.stringify(detail)}`)
        .sort(),
      [
        'service_account.created admin {"name":"build","role":"developer"}',
        'service_account.created owner {"name":"robot","role":"admin"}',
        'service_account.deleted admin {"name":"Build","role":"viewer","revoked_keys":0}',
        'service_account.deleted owner {"name":"robot","role":"admin","revoked_keys":2}',
        'service_account.disabled owner {"name":"robot"}',
        'service_account.enabled owner {"name":"robot"}',
        'service_account.renamed admin {"from":"build","to":"Build"}',
        'service_account.role_changed admin {"name":"Build","from":"developer","to":"viewer"}',
      ],
    );
    t.match(
      entries.find(({ action, target }) => action === 'api_key.created' && target === keyId),
      { actor: { email: 'owner@example.com' }, detail: { name: 'ci', service_account: 'robot' } },
    );
    t.match(
      entries.find(({ action }) => action === 'api_key.rotated'),
      { detail: { service_account: 'robot' } },
    );
  });

  await t.test("another organization's admin can neither see, change nor use them", async (t) => {
    const { id } = await owner.post<ServiceAccountObject>(`${path}/service-accounts`, { name: 'robot' });
    for (const place of [org, foreign.id]) {
      const one = `/organizations/${place}/service-accounts/${id}`;
      t.match(await refusal(stranger.get(one)), { status: 404 });
      t.match(await refusal(stranger.patch(one, { disabled: true })), { status: 404 });
      t.match(await refusal(stranger.delete(one)), { status: 404 });
      t.match(await refusal(stranger.post(`/organizations/${place}/api-keys`, { name: 'x', service_account_id: id })), {
        status: 404,
      });
    }
    t.match(await stranger.get(`/organizations/${foreign.id}/service-accounts`), { data: [] });
    t.match(await list(), [{ id, disabled: false, active_keys: 0 }]);
    // Deleting an organization deletes its service accounts.
    const other = await owner.post<{ id: string }>('/organizations', { name: 'Other' });
    await owner.post(`/organizations/${other.id}/service-accounts`, { name: 'robot' });
    await owner.delete(`/organizations/${other.id}`);
    t.match(await refusal(owner.get(`/organizations/${other.id}/service-accounts`)), { status: 404 });
    t.same(await dashboard.server.directory.serviceAccounts.list(other.id), []);
  });
});
