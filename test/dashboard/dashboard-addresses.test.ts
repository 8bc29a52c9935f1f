// Tests which addresses may open an organization's dashboard, using a real server that receives proxy headers, with
// LMDB and PostgreSQL.
import t from 'tap';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { AuditEntry, DashboardAddresses, InviteObject } from '../../src/shared/wire/organizations.js';
import type { Me } from '../../src/shared/wire/users.js';
import { onBothStores } from '../support/both-stores.js';
import { commandHost } from '../support/command-host.js';
import type { DashboardClient } from '../support/dashboard-client.js';
import { startDashboard } from '../support/dashboard-server.js';

t.setTimeout(300_000); // password hashing is slow on a busy machine

const OFFICE = '203.0.113.9';
const HOME = '198.51.100.4';

interface Answer {
  status: number;
  body: { error?: { code: string; message: string; param: string | null } };
}

/** A request from this address, as a proxy reports it. */
async function from(
  address: string,
  client: DashboardClient,
  method: string,
  path: string,
  body?: unknown,
): Promise<Answer> {
  const headers = { 'x-forwarded-for': `192.0.2.200, ${address}` };
  const response = await client.fetch(path, { method, headers, ...(body === undefined ? {} : { body }) });
  const text = await response.text();
  return { status: response.status, body: text.startsWith('{') ? (JSON.parse(text) as Answer['body']) : {} };
}

onBothStores(async (t, store) => {
  const settings = { ...store, accounts: { signup: 'open' }, http: { trust_proxy: true } };
  const dashboard = await startDashboard(settings);
  t.teardown(() => dashboard.close());
  const owner = dashboard.client();
  const {
    organization: { id: org, name },
  } = await owner.signUp({
    email: 'owner@example.com',
    code: (await dashboard.server.directory.signUps.firstCode()) ?? '', // the server may be reachable through the proxy
  });
  const developer = dashboard.client();
  const { url } = await owner.post<InviteObject>(`/organizations/${org}/invites`, {
    email: 'developer@example.com',
    role: 'developer',
  });
  await developer.signUp({
    email: 'developer@example.com',
    invite: new URL(url ?? '').searchParams.get('token') ?? '',
  });
  const stranger = dashboard.client();
  await stranger.signUp({ email: 'stranger@example.com' });
  const path = `/organizations/${org}`;
  const put = (address: string, allowed: string[], client = owner): Promise<Answer> =>
    from(address, client, 'PUT', `${path}/dashboard-addresses`, { allowed_addresses: allowed });

  await t.test('a list must include the address that saves it', async (t) => {
    t.match(await from(OFFICE, owner, 'GET', `${path}/dashboard-addresses`), {
      status: 200,
      body: { allowed_addresses: [], your_address: OFFICE, only_owner: true } satisfies DashboardAddresses,
    });
    t.match(await put(OFFICE, [HOME]), {
      status: 422,
      body: { error: { code: 'invalid_value', param: 'allowed_addresses', message: /must include 203\.0\.113\.9,/ } },
    });
    t.match(await put(OFFICE, ['203.0.113.0/33']), { status: 422, body: { error: { param: /allowed_addresses/ } } });
    t.equal((await from(HOME, owner, 'GET', path)).status, 200, 'a refused list changes nothing');
    t.match(await put(OFFICE, ['203.0.113.0/24'], developer), {
      status: 403,
      body: { error: { code: 'role_not_allowed' } },
    });
    t.match(await put(OFFICE, ['203.0.113.0/24'], stranger), { status: 404 });
    t.match(await put(OFFICE, ['203.0.113.0/24', '203.0.113.0/24']), {
      status: 200,
      body: { allowed_addresses: ['203.0.113.0/24'] },
    });
  });

  await t.test('a session from another address gets 403 with the address, on every route', async (t) => {
    t.equal((await from(OFFICE, owner, 'GET', path)).status, 200);
    for (const [method, part, body] of [
      ['GET', ''],
      ['PATCH', '', { name: 'X' }],
      ['DELETE', ''],
      ['GET', '/members'],
      ['GET', '/service-accounts'],
      ['POST', '/service-accounts', { name: 'x' }],
      ['GET', '/dashboard-addresses'],
      ['PUT', '/dashboard-addresses', { allowed_addresses: [] }],
      ['POST', '/api-keys', { name: 'x' }],
      ['GET', '/audit-log.csv'],
      ['GET', '/requests'],
      ['GET', '/usage.csv'],
      ['POST', '/playground', {}],
    ] as const)
      t.match(
        await from(HOME, owner, method, `${path}${part}`, body),
        {
          status: 403,
          body: { error: { code: 'address_not_allowed', message: /from the address 198\.51\.100\.4\./ } },
        },
        `${method} ${part}`,
      );
    t.equal((await from(HOME, stranger, 'GET', path)).status, 404, 'a user who is not a member learns nothing');
    const me = (await from(HOME, owner, 'GET', '/me')).body as unknown as Me;
    t.match(me, { address: HOME, organizations: [{ id: org, address_allowed: false }] });
    t.match((await from(OFFICE, owner, 'GET', '/me')).body, { organizations: [{ id: org, address_allowed: true }] });
    t.match((await from(HOME, owner, 'GET', '/organizations')).body, { data: [] });
    t.match((await from('::ffff:203.0.113.77', owner, 'GET', '/organizations')).body, { data: [{ id: org }] });
    t.equal((await from(HOME, owner, 'GET', '/operator/organizations')).status, 200, 'operator pages are not affected');
  });

  await t.test('operators can clear the list, but not set it', async (t) => {
    const one = `/operator/organizations/${org}`;
    t.match((await from(HOME, owner, 'GET', one)).body, { dashboard_addresses: ['203.0.113.0/24'] });
    t.equal((await from(HOME, owner, 'PATCH', one, { dashboard_addresses: [HOME] })).status, 422);
    t.equal((await from(HOME, developer, 'PATCH', one, { dashboard_addresses: [] })).status, 403);
    t.match(await from(HOME, owner, 'PATCH', one, { dashboard_addresses: [] }), { status: 200 });
    t.equal((await from(HOME, owner, 'GET', path)).status, 200);

    await put(OFFICE, [OFFICE]);
    const monolith = commandHost(
      t,
      'database' in store
        ? { MONOLITH_DATABASE_URL: (store.database as { url: string }).url }
        : { MONOLITH_DATA_DIR: dashboard.dataDir },
    );
    t.match(await monolith(['organizations', 'list']), { status: 0, out: new RegExp(`${org}.*${OFFICE}`) });
    t.match(await monolith(['organizations', 'clear-addresses', 'Nobody']), {
      status: 2,
      err: /no organization "Nobody"/,
    });
    t.match(await monolith(['organizations', 'clear-addresses', name]), { status: 0, err: '', out: /all addresses/ });
    t.equal((await from(HOME, owner, 'GET', path)).status, 200, 'the running server allows all addresses at once');
    const { data } = await owner.get<ListPage<AuditEntry>>(
      `${path}/audit-log?action=organization.dashboard_addresses_changed`,
    );
    t.same(
      data.map(({ actor, detail }) => [actor.type, detail['addresses']]),
      [
        ['command_line', []],
        ['user', [OFFICE]],
        ['user', []],
        ['user', ['203.0.113.0/24']],
      ],
    );
  });

  await t.test('without http.trust_proxy, the header does not count', async (t) => {
    await put(OFFICE, [OFFICE]);
    await dashboard.restart({ ...settings, http: {} });
    const again = dashboard.client();
    again.cookie = owner.cookie;
    t.match(await from(OFFICE, again, 'GET', path), {
      status: 403,
      body: { error: { message: /from the address 127\.0\.0\.1\./ } },
    });
  });
});
