// Tests organizations: members, roles, invitations, the audit log, and isolation from other organizations.
import t from 'tap';
import { finishDeletions } from '../../src/accounts/delete-organization.js';
import { OrganizationTable } from '../../src/storage/lmdb/accounts/organization-table.js';
import { configWith } from '../../src/config/load.js';
import { openResponseStore } from '../../src/storage/lmdb/responses/open-response-store.js';
import type { ListPage } from '../../src/shared/wire/list.js';
import type {
  AuditEntry,
  InviteObject,
  MemberObject,
  OrganizationObject,
  Role,
} from '../../src/shared/wire/organizations.js';
import type { Me } from '../../src/shared/wire/users.js';
import { eventually } from '../e2e/monolith.js';
import { refusal } from '../support/dashboard-client.js';
import type { DashboardClient } from '../support/dashboard-client.js';
import { startDashboard, folderDirectory } from '../support/dashboard-server.js';

t.setTimeout(300_000); // password hashing is slow on a busy machine

const dashboard = await startDashboard();
t.teardown(() => dashboard.close());
const owner = dashboard.client();
const {
  user: ownerUser,
  organization: { id: org },
} = await owner.signUp({ email: 'owner@example.com', organization_name: 'Home' });
const stranger = dashboard.client();
const {
  user: strangerUser,
  organization: { id: foreign },
} = await stranger.signUp({ email: 'stranger@example.com' });

const tokenOf = (invite: InviteObject): string => new URL(invite.url as string).searchParams.get('token') as string;
const invite = (email: string, role: Role, by = owner): Promise<InviteObject> =>
  by.post(`/organizations/${org}/invites`, { email, role });

async function member(email: string, role: Role): Promise<{ client: DashboardClient; id: string }> {
  const client = dashboard.client();
  const { user } = await client.signUp({ email, invite: tokenOf(await invite(email, role)) });
  return { client, id: user.id };
}

const admin = await member('admin@example.com', 'admin');
const developer = await member('developer@example.com', 'developer');
const viewer = await member('viewer@example.com', 'viewer');

t.test('each role may read and change only what it is allowed to', async (t) => {
  const { data } = await viewer.client.get<ListPage<MemberObject>>(`/organizations/${org}/members`);
  t.same(
    data.map(({ email, role }) => [email, role]),
    [
      ['owner@example.com', 'owner'],
      ['admin@example.com', 'admin'],
      ['developer@example.com', 'developer'],
      ['viewer@example.com', 'viewer'],
    ],
  );
  t.match(await viewer.client.get(`/organizations/${org}`), {
    id: org,
    name: 'Home',
    status: 'active',
    limits: { 'hal-1.0': { rpm: 9_999, tpm: 999_999, concurrency: 99 } },
  });

  const refused = { status: 403, code: 'role_not_allowed' };
  for (const { client } of [viewer, developer]) {
    t.match(await refusal(client.patch(`/organizations/${org}`, { name: 'Mine' })), refused);
    t.match(await refusal(client.get(`/organizations/${org}/invites`)), refused);
    t.match(await refusal(invite('x@example.com', 'viewer', client)), refused);
    t.match(await refusal(client.patch(`/organizations/${org}/members/${viewer.id}`, { role: 'admin' })), refused);
    t.match(await refusal(client.delete(`/organizations/${org}/members/${admin.id}`)), refused);
    t.match(await refusal(client.get(`/organizations/${org}/audit-log`)), refused);
    t.match(await refusal(client.delete(`/organizations/${org}`)), refused);
    for (const [path, body] of [
      ['budget', { amount: 5 }],
      [`budgets/${viewer.id}`, { amount: 5 }],
    ] as const)
      t.match((await client.fetch(`/organizations/${org}/${path}`, { method: 'PUT', body })).status, 403, path);
  }
  for (const path of ['budget', 'budgets', 'budgets/stopped']) {
    t.ok(await viewer.client.get(`/organizations/${org}/${path}`), `viewers can read ${path}`);
    t.match(await refusal(stranger.get(`/organizations/${org}/${path}`)), { status: 404 }, path);
  }
  const budgetOf = async (who: DashboardClient, path: string, body: object): Promise<[number, unknown]> => {
    const answer = await who.fetch(`/organizations/${org}/${path}`, { method: 'PUT', body });
    return [answer.status, await answer.json()];
  };
  t.match(
    await budgetOf(admin.client, 'budget', { amount: 5, stops: true }),
    [403, { error: { code: 'role_not_allowed', param: 'stops' } }],
    'only owners choose whether the budget stops requests',
  );
  t.match(await budgetOf(owner, 'budget', { amount: 5, stops: true }), [200, { stops: true }]);
  t.match(await budgetOf(admin.client, 'budget', { amount: 6, stops: true }), [200, { amount: 6, stops: true }]);
  t.match(await budgetOf(admin.client, 'budget', { amount: null }), [200, { amount: null, stops: true }]);
  t.match(await budgetOf(stranger, `budgets/${viewer.id}`, { amount: 5 }), [404, {}]);
  t.match(
    await budgetOf(admin.client, `budgets/${strangerUser.id}`, { amount: 5 }),
    [404, { error: { code: 'resource_not_found' } }],
    'a user of another organization cannot have a budget here',
  );
  t.match(await budgetOf(admin.client, `budgets/${viewer.id}`, { amount: 5 }), [
    200,
    { scope: 'member', id: viewer.id, amount: 5, spent: null, api_keys: [] },
  ]);
  t.match(await budgetOf(admin.client, `budgets/${viewer.id}`, { amount: null }), [200, { amount: null }]);
  t.match(await budgetOf(owner, 'budget', { amount: null, stops: false }), [200, { stops: false }]);
  t.match(await refusal(viewer.client.post(`/organizations/${org}/playground`, {})), refused);
  t.match(await refusal(admin.client.delete(`/organizations/${org}`)), refused);
  t.match(await admin.client.patch(`/organizations/${org}`, { name: 'Home 2' }), { name: 'Home 2' });
  t.match(await refusal(owner.get('/operator/users').then(() => viewer.client.get('/operator/users'))), refused);
});

t.test('only owners appoint and remove owners, and the last one stays', async (t) => {
  const path = (id: string): string => `/organizations/${org}/members/${id}`;
  t.match(
    await refusal(owner.delete(path(ownerUser.id))),
    { status: 422, code: 'invalid_value' },
    'the last owner cannot be removed',
  );
  t.match(await refusal(owner.patch(path(ownerUser.id), { role: 'viewer' })), {
    status: 422,
    code: 'invalid_value',
    param: 'role',
  });
  t.match(await refusal(admin.client.patch(path(admin.id), { role: 'owner' })), {
    status: 403,
    code: 'role_not_allowed',
  });
  t.match(await refusal(admin.client.patch(path(ownerUser.id), { role: 'viewer' })), { status: 403 });
  t.match(await refusal(admin.client.delete(path(ownerUser.id))), { status: 403 });
  t.match(await refusal(invite('x@example.com', 'owner', admin.client)), { status: 403 });
  t.match(await refusal(owner.patch(path(admin.id), { role: 'king' })), {
    status: 422,
    code: 'invalid_value',
    param: 'role',
  });
  t.match(await refusal(owner.patch(path('user_x'), { role: 'viewer' })), { status: 404, code: 'resource_not_found' });

  // If two owners demote each other concurrently, one owner remains.
  await owner.patch(path(admin.id), { role: 'owner' });
  const answers = await Promise.allSettled([
    owner.patch(path(admin.id), { role: 'viewer' }),
    admin.client.patch(path(ownerUser.id), { role: 'viewer' }),
  ]);
  const { data } = await viewer.client.get<ListPage<MemberObject>>(`/organizations/${org}/members`);
  t.equal(data.filter(({ role }) => role === 'owner').length, 1);
  const winner = answers[0].status === 'fulfilled' ? owner : admin.client;
  await winner.patch(path(ownerUser.id), { role: 'owner' });
  await owner.patch(path(admin.id), { role: 'admin' });
});

t.test('an invitation can be accepted once, by its address, until it is revoked', async (t) => {
  const first = await invite('guest@example.com', 'viewer');
  t.match(first, { id: /^inv_/, email: 'guest@example.com', role: 'viewer', state: 'pending' });
  t.ok(Math.abs(Date.parse(first.expires_at) - Date.now() - 7 * 24 * 3_600_000) < 60_000);
  const second = await invite('guest@example.com', 'developer');
  const { data } = await owner.get<ListPage<InviteObject>>(`/organizations/${org}/invites?limit=100`);
  t.match(
    data.find(({ id }) => id === first.id),
    { state: 'revoked', url: null },
    'a newer invitation to the same address revokes the earlier one',
  );
  t.match(
    data.find(({ id }) => id === second.id),
    { state: 'pending', url: second.url },
  );
  t.match(await refusal(invite('viewer@example.com', 'admin')), { status: 422, code: 'invalid_value', param: 'email' });
  t.match(await refusal(dashboard.client().get(`/invites/${tokenOf(first)}`)), { status: 400, code: 'invalid_token' });
  const forged = `${tokenOf(second).slice(0, 25)}${'A'.repeat(43)}`;
  t.match(await refusal(dashboard.client().get(`/invites/${forged}`)), { status: 400, code: 'invalid_token' });

  const guest = dashboard.client();
  await guest.signUp({ email: 'guest@example.com' });
  t.match(
    await refusal(stranger.post(`/invites/${tokenOf(second)}/accept`)),
    { status: 422, code: 'invalid_value' },
    'an invitation can be accepted only by a user with its address',
  );
  t.match(await guest.post(`/invites/${tokenOf(second)}/accept`), { organization: { id: org } });
  t.match(
    (await guest.get<Me>('/me')).organizations.find(({ id }) => id === org),
    { role: 'developer' },
  );
  t.match(await refusal(guest.post(`/invites/${tokenOf(second)}/accept`)), { status: 400, code: 'invalid_token' });

  const third = await invite('late@example.com', 'viewer');
  await owner.delete(`/organizations/${org}/invites/${third.id}`);
  await owner.delete(`/organizations/${org}/invites/${third.id}`);
  t.match(await refusal(dashboard.client().signUp({ email: 'late@example.com', invite: tokenOf(third) })), {
    status: 400,
    code: 'invalid_token',
  });
  const fourth = await invite('later@example.com', 'viewer');
  await dashboard.inside(async (store) => {
    const table = store.table<{ expiresAt: number }>('invites');
    await table.put([org, fourth.id], { ...table.get([org, fourth.id])!, expiresAt: Date.now() - 1 });
  });
  t.match(await refusal(dashboard.client().signUp({ email: 'later@example.com', invite: tokenOf(fourth) })), {
    status: 400,
    code: 'invalid_token',
  });
});

t.test('a removed member loses access to the organization', async (t) => {
  const { client, id } = await member('gone@example.com', 'developer');
  await admin.client.delete(`/organizations/${org}/members/${id}`);
  t.match(await refusal(client.get('/me')), { status: 401, code: 'not_signed_in' });
  await client.login('gone@example.com');
  t.match(await refusal(client.get(`/organizations/${org}`)), { status: 404, code: 'resource_not_found' });
  const leaving = await member('leaving@example.com', 'viewer');
  await leaving.client.delete(`/organizations/${org}/members/${leaving.id}`);
  t.same((await leaving.client.get<Me>('/me')).organizations, [], 'a member who leaves stays signed in');
});

t.test('invitations sent by an admin become invalid when the admin is removed or demoted', async (t) => {
  const removed = await member('removed@example.com', 'admin');
  const second = await invite('second@example.com', 'admin', removed.client);
  const demoted = await member('demoted@example.com', 'admin');
  const third = await invite('third@example.com', 'viewer', demoted.client);
  await owner.delete(`/organizations/${org}/members/${removed.id}`);
  await owner.patch(`/organizations/${org}/members/${demoted.id}`, { role: 'developer' });
  for (const one of [second, third]) {
    t.match(await refusal(dashboard.client().get(`/invites/${tokenOf(one)}`)), { status: 400, code: 'invalid_token' });
    t.match(await refusal(dashboard.client().signUp({ email: one.email, invite: tokenOf(one) })), {
      status: 400,
      code: 'invalid_token',
    });
    t.match(
      (await owner.get<ListPage<AuditEntry>>(`/organizations/${org}/audit-log?limit=10`)).data.find(
        ({ target }) => target === one.id,
      ),
      { action: 'invite.revoked', actor: { id: ownerUser.id }, detail: { email: one.email } },
    );
  }
});

t.test('every route of another organization returns 404', async (t) => {
  const paths = [
    ['GET', ''],
    ['PATCH', '', { name: 'X' }],
    ['DELETE', ''],
    ['GET', '/members'],
    ['PATCH', `/members/${viewer.id}`, { role: 'admin' }],
    ['DELETE', `/members/${viewer.id}`],
    ['GET', '/invites'],
    ['POST', '/invites', { email: 'x@example.com', role: 'viewer' }],
    ['DELETE', '/invites/inv_x'],
    ['GET', '/audit-log'],
    ['GET', '/audit-log.csv'],
    ['GET', '/requests'],
    ['GET', '/requests.csv'],
    ['GET', '/requests/1.req_x'],
    ['GET', '/usage.csv'],
    ['POST', '/playground', {}],
    ['GET', '/service-accounts'],
    ['GET', '/service-accounts/svc_x'],
    ['POST', '/service-accounts', { name: 'x' }],
    ['PATCH', '/service-accounts/svc_x', { disabled: true }],
    ['DELETE', '/service-accounts/svc_x'],
    ['POST', '/api-keys', { name: 'x', service_account_id: 'svc_x' }],
    ['GET', '/dashboard-addresses'],
    ['PUT', '/dashboard-addresses', { allowed_addresses: [] }],
  ] as const;
  for (const [method, path, body] of paths) {
    for (const id of [org, 'org_unknown', 'x'.repeat(200)]) {
      const response = await stranger.fetch(`/organizations/${id}${path}`, {
        method,
        ...(body === undefined ? {} : { body }),
      });
      t.equal(response.status, 404, `${method} ${path}`);
      t.match(await response.json(), { error: { code: 'resource_not_found', param: 'org' } });
    }
  }
  const { id } = await invite('hidden@example.com', 'viewer');
  t.match(await refusal(stranger.delete(`/organizations/${foreign}/invites/${id}`)), { status: 404 });
  t.match(await refusal(stranger.patch(`/organizations/${foreign}/members/${viewer.id}`, { role: 'admin' })), {
    status: 404,
  });
});

t.test('the audit log can be filtered and downloaded', async (t) => {
  const list = async (query: string): Promise<AuditEntry[]> =>
    (await owner.get<ListPage<AuditEntry>>(`/organizations/${org}/audit-log?limit=100&${query}`)).data;
  const invites = await list('action=invite');
  t.ok(invites.length > 2 && invites.every(({ action }) => action.startsWith('invite.')));
  t.ok((await list('actor=admin@example.com')).every(({ actor }) => actor.id === admin.id));
  t.same(await list('to=2020-01-01'), []);
  const file = await owner.fetch(`/organizations/${org}/audit-log.csv?action=invite`);
  const lines = (await file.text()).trim().split('\r\n');
  t.equal(file.headers.get('content-disposition'), 'attachment; filename="audit-log.csv"');
  t.match(lines[0], /^at,action,actor_type,actor_id,actor_email,ip,target,detail,id$/);
  t.equal(lines.length, invites.length + 1);
  t.match(await refusal(owner.get(`/organizations/${org}/audit-log?temporary=1`)), { status: 400, param: 'temporary' });
  t.equal((await viewer.client.fetch(`/organizations/${org}/audit-log.csv`)).status, 403);
  t.match(await (await owner.fetch('/operator/audit-log.csv')).text(), /^at,action,[^]*operator\.first_user/);
  t.equal((await viewer.client.fetch('/operator/audit-log.csv')).status, 403);
});

t.test('the audit log is paginated, newest entry first', async (t) => {
  const seen: AuditEntry[] = [];
  for (let after = ''; ; ) {
    const page = await owner.get<ListPage<AuditEntry>>(`/organizations/${org}/audit-log?limit=7${after}`);
    seen.push(...page.data);
    if (page.next === null) break;
    after = `&after=${page.next}`;
  }
  t.equal(new Set(seen.map(({ id }) => id)).size, seen.length, 'no entry appears on two pages');
  t.ok(seen.length > 20, 'the pages contain all entries');
  t.same(
    seen.map(({ at }) => at),
    seen
      .map(({ at }) => at)
      .sort()
      .reverse(),
    'entries are sorted newest first',
  );
  t.match(
    seen.find(({ action }) => action === 'organization.renamed'),
    {
      actor: { type: 'user', id: admin.id, email: 'admin@example.com' },
      ip: '127.0.0.1',
      detail: { from: 'Home', to: 'Home 2' },
    },
  );
  for (const action of [
    'member.joined',
    'member.role_changed',
    'member.removed',
    'member.left',
    'invite.created',
    'invite.revoked',
  ])
    t.ok(
      seen.some((entry) => entry.action === action),
      action,
    );
  t.match(await refusal(owner.get(`/organizations/${org}/audit-log?after=nonsense`)), {
    status: 400,
    code: 'invalid_query_parameter',
    param: 'after',
  });
});

t.test('a suspended organization can be read but not changed', async (t) => {
  const client = dashboard.client();
  const { organization } = await client.signUp();
  await owner.patch(`/operator/organizations/${organization.id}`, { status: 'suspended' });
  t.match(await client.get(`/organizations/${organization.id}`), { status: 'suspended' });
  t.match(await refusal(client.patch(`/organizations/${organization.id}`, { name: 'X' })), {
    status: 403,
    code: 'organization_suspended',
  });
  t.match(await refusal(client.delete(`/organizations/${organization.id}`)), {
    status: 403,
    code: 'organization_suspended',
  });
});

t.test('deleting an organization revokes its keys and erases its data', async (t) => {
  const client = dashboard.client();
  const {
    organization: { id },
  } = await client.signUp();
  const { key, secret } = await dashboard.server.accounts.createKey({ name: 'k' }, id);
  const ask = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(dashboard.url + path, {
      ...init,
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    });
  t.equal(
    (
      await ask('/v1/responses', {
        method: 'POST',
        body: JSON.stringify({ model: 'hal-1.0', input: 'Hi', max_output_tokens: 4 }),
      })
    ).status,
    200,
  );
  const stored = (): Promise<number> =>
    dashboard.inside(
      async (store) =>
        [...store.table<{ organizationId: string }>('responses').range()].filter(
          ({ value }) => value.organizationId === id,
        ).length,
    );
  t.equal(await stored(), 1);
  await client.delete(`/organizations/${id}`);
  t.match(await refusal(client.get(`/organizations/${id}`)), { status: 404 });
  t.match(await (await ask('/v1/models')).json(), { error: { code: 'api_key_revoked' } });
  t.ok(await eventually(async () => (await stored()) === 0), 'its stored responses are erased');
  t.equal((await client.get<Me>('/me')).organizations.length, 0);
  t.notOk((await dashboard.server.accounts.organizations.all()).some((one) => one.id === id));
  const again = await client.post<OrganizationObject>('/organizations', { name: 'Next' });
  const tenants = await dashboard.inside(
    async (store) =>
      new Set([...store.table<{ tenant: number }>('organizations').range()].map(({ value }) => value.tenant)).size ===
      [...store.table('organizations').keys()].length,
  );
  t.ok(tenants, 'the id of a deleted organization is not reused');
  t.match(await client.get('/organizations'), { data: [{ id: again.id, name: 'Next' }] });
  // The API keys are deleted together with the usage rows that refer to the keys.
  const directory = folderDirectory(dashboard.server);
  const responses = openResponseStore(directory.store, configWith().responses, {
    onError: (error) => {
      throw error;
    },
  });
  t.teardown(() => responses.close());
  const sweepAfter = (days: number): Promise<void> =>
    finishDeletions(directory.organizations, responses, 90, Date.now() + days * 86_400_000);
  await sweepAfter(89);
  t.match(await (await ask('/v1/models')).json(), { error: { code: 'api_key_revoked' } });
  await sweepAfter(91);
  t.match(await (await ask('/v1/models')).json(), { error: { code: 'invalid_api_key' } });
  const left = await dashboard.inside(async (store) =>
    (['keys', 'keys-by-hash', 'keys-by-organization', 'organization-settings'] as const).filter((table) =>
      JSON.stringify([...store.table(table).range()]).match(`${id}|${key.id}`),
    ),
  );
  t.same(left, []);
  t.same(
    new OrganizationTable(directory.store).deletedBefore(Infinity),
    [],
    'a fully erased organization is not processed again',
  );
});
