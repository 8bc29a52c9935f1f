// Tests roles from a claim (`oidc.roles`) with a real provider and a real server, on LMDB and on PostgreSQL.
import t, { type Test } from 'tap';
import { claimAt, claimedRole, claimValues } from '../../src/accounts/oidc/claimed-role.js';
import { configWith } from '../../src/config/load.js';
import type { OidcRoles } from '../../src/config/oidc-roles.js';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { AuditEntry, MemberObject } from '../../src/shared/wire/organizations.js';
import type { Me } from '../../src/shared/wire/users.js';
import { onBothStores } from '../support/both-stores.js';
import { refusal } from '../support/dashboard-client.js';
import type { DashboardClient } from '../support/dashboard-client.js';
import { startDashboard } from '../support/dashboard-server.js';
import type { DashboardServer } from '../support/dashboard-server.js';
import { failureOf, followSignIn } from '../support/oidc-browser.js';
import { startOidcProvider } from '../support/oidc-provider.js';
import type { OidcTestProvider, Person } from '../support/oidc-provider.js';

t.setTimeout(300_000); // password hashing is slow on a busy machine

const ROLES = {
  claim: 'realm_access.roles',
  roles: { 'llm-owners': 'owner', 'llm-admins': 'admin', 'llm-users': 'developer' },
  default: 'refuse',
  operators: ['llm-operators'],
};
const CLAIM: OidcRoles = {
  claim: 'groups',
  organization: null,
  roles: { a: 'admin', v: 'viewer' },
  default: 'refuse',
  operators: null,
  scopes: [],
};

t.test('a claim is found by its path, and a name may contain dots', async (t) => {
  t.equal(claimAt({ groups: 'a' }, 'groups'), 'a');
  t.same(claimAt({ realm_access: { roles: ['a'] } }, 'realm_access.roles'), ['a']);
  t.equal(claimAt({ 'https://example.com/roles': 'a' }, 'https://example.com/roles'), 'a');
  t.equal(claimAt({ 'https://example.com': { x: { y: 'a' } } }, 'https://example.com.x.y'), 'a');
  t.equal(claimAt({ a: { b: 1 }, 'a.b': 2 }, 'a.b'), 2, 'the longest name is used');
  t.equal(claimAt({ a: {} }, 'a.constructor'), undefined, 'inherited properties are not claims');
  t.equal(claimAt({ a: ['x'] }, 'a.0'), undefined);
  t.equal(claimAt('a', 'length'), undefined);
  t.same(claimValues(undefined), []);
  t.same(claimValues('a b'), ['a b'], 'a string is one value');
  t.equal(claimValues(['a', 1]), null);
  t.equal(claimValues({ a: true }), null);
});

t.test('the highest matching role applies, and the default if none matches', async (t) => {
  t.same(claimedRole(['v', 'a', 'other'], CLAIM), { role: 'admin', operator: null });
  t.throws(() => claimedRole(['constructor', 'other'], CLAIM), { message: 'no_role' });
  t.same(claimedRole([], { ...CLAIM, default: 'viewer' }), { role: 'viewer', operator: null });
  t.same(claimedRole([], { ...CLAIM, default: 'keep' }), { role: null, operator: null });
  const operators = { ...CLAIM, operators: ['ops'] };
  t.same(claimedRole(['ops'], operators), { role: null, operator: true }, 'operator rights alone permit a sign-in');
  t.same(claimedRole(['v'], operators), { role: 'viewer', operator: false });
});

t.test('an invalid setting is refused with the name of the wrong field', async (t) => {
  const refused = (roles: unknown): void => void configWith({ oidc: { roles } });
  t.throws(() => refused({ roles: { a: 'admin' } }), { message: /oidc\.roles.*claim/ });
  t.throws(() => refused({ ...ROLES, roles: { a: 'boss' } }), { message: /roles\.a/ });
  t.throws(() => refused({ ...ROLES, organization: 'Acme' }), { message: /organization: must be the ID/ });
  t.throws(() => refused({ ...ROLES, defalt: 'viewer' }), { message: /defalt/ });
  t.throws(() => refused({ claim: 'groups' }), { message: /At least one value must be listed/ });
  t.same(configWith({ oidc: { roles: JSON.stringify(ROLES) } }).oidc.roles?.default, 'refuse');
  t.equal(configWith({ oidc: { roles: null } }).oidc.roles, null);
});

/** A server with a provider, an operator who is the owner of the first organization, and a sign-in for a person. */
interface Scene {
  readonly dashboard: DashboardServer;
  readonly provider: OidcTestProvider;
  readonly owner: DashboardClient;
  readonly org: string;
  /** Signs in with these values of the claim and returns the client and the page on which the sign-in ended. */
  come(sub: string, roles: unknown, more?: Partial<Person>): Promise<{ client: DashboardClient; end: URL }>;
  restart(roles: object): Promise<void>;
}

async function sceneOf(t: Test, store: object): Promise<Scene> {
  const provider = await startOidcProvider();
  t.teardown(() => provider.close());
  const settings = (roles: object): object => ({
    ...store,
    oidc: {
      issuer: provider.issuer,
      client_id: provider.clientId,
      client_secret: provider.clientSecret,
      signup: 'open',
      roles,
    },
  });
  const dashboard = await startDashboard(settings(ROLES));
  t.teardown(() => dashboard.close());
  const register = (): void => provider.register(`${dashboard.url}/dashboard/api/oidc/callback`);
  register();
  const owner = dashboard.client();
  const { organization } = await owner.signUp({ email: 'owner@example.com' });
  return {
    dashboard,
    provider,
    owner,
    org: organization.id,
    async come(sub, roles, more = {}) {
      provider.person = {
        sub,
        email: `${sub}@example.com`,
        email_verified: true,
        ...(roles === undefined ? {} : { realm_access: { roles } }),
        ...more,
      };
      const client = dashboard.client();
      return { client, end: await followSignIn(client, dashboard.url, '/dashboard/api/oidc/start') };
    },
    async restart(roles) {
      await dashboard.restart(settings(roles));
      register();
    },
  };
}

onBothStores((t, store) =>
  t.test('each sign-in sets the role that the claim gives', async (t) => {
    const { dashboard, provider, owner, org, come, restart } = await sceneOf(t, store);
    const members = async (): Promise<Record<string, string>> =>
      Object.fromEntries(
        (await owner.get<ListPage<MemberObject>>(`/organizations/${org}/members?limit=100`)).data.map(
          ({ email, role }) => [email, role],
        ),
      );
    const entries = async (path: string): Promise<AuditEntry[]> =>
      (await owner.get<ListPage<AuditEntry>>(`${path}/audit-log?limit=100`)).data;

    // A new user joins the organization instead of getting a new organization.
    const { client: ada } = await come('ada', ['other', 'llm-admins']);
    const me = await ada.get<Me>('/me');
    t.match(me, { user: { operator: false }, organizations: [{ id: org, role: 'admin' }] });
    t.equal(me.organizations.length, 1);
    await ada.get(`/organizations/${org}/audit-log`);

    // Another sign-in with other groups takes effect in the session that is already open.
    const { client: again } = await come('ada', 'llm-users');
    t.match(await again.get<Me>('/me'), { organizations: [{ id: org, role: 'developer' }] });
    t.match(await refusal(ada.get(`/organizations/${org}/audit-log`)), { status: 403, code: 'role_not_allowed' });
    t.match(
      (await entries(`/organizations/${org}`)).filter(({ target }) => target === me.user.id),
      [
        {
          action: 'member.role_changed',
          actor: { type: 'identity_provider', id: null, email: null },
          ip: '127.0.0.1',
          detail: { from: 'admin', to: 'developer', email: 'ada@example.com' },
        },
        { action: 'member.joined', actor: { type: 'identity_provider' }, detail: { role: 'admin' } },
      ],
    );

    // Without a matching value, the sign-in is refused, and nothing is created or changed.
    for (const [sub, roles] of [
      ['eve', ['other']],
      ['eve', undefined],
      ['ada', []],
      ['ada', { 'llm-admins': true }],
    ] as const) {
      const { client, end } = await come(sub, roles);
      t.equal(failureOf(end), 'no_role');
      t.equal(client.cookie, null);
    }
    t.match(dashboard.logs.join(''), /neither a string nor a list of strings/);
    t.same(await members(), { 'owner@example.com': 'owner', 'ada@example.com': 'developer' });

    // Operator rights are granted and revoked when the claim's values change.
    const { client: ops } = await come('ada', ['llm-operators', 'llm-users']);
    await ops.get('/operator/users');
    await come('ada', 'llm-users');
    t.match(await refusal(ops.get('/operator/users')), { status: 403 });
    t.same(
      (await entries('/operator'))
        .filter(({ action }) => action.startsWith('user.operator'))
        .map(({ action, actor }) => `${action} ${actor.type}`),
      ['user.operator_withdrawn identity_provider', 'user.operator_granted identity_provider'],
    );

    // A user whom an admin removed comes back with the next sign-in.
    await owner.delete(`/organizations/${org}/members/${me.user.id}`);
    await come('ada', 'llm-users');
    t.equal((await members())['ada@example.com'], 'developer');

    // The last owner, who is also the last operator, keeps both.
    provider.person = { sub: 'op', email: 'owner@example.com', email_verified: true };
    const { url } = await owner.post<{ url: string }>('/oidc/link');
    const journey = /oidc=([^;]*)/.exec(owner.headers.getSetCookie()[0] ?? '')?.[1] ?? '';
    t.equal((await followSignIn(owner, dashboard.url, url, { journey })).search, '?oidc=linked');
    const { client: last } = await come('op', ['llm-users'], { email: 'owner@example.com' });
    t.match(await last.get<Me>('/me'), {
      user: { email: 'owner@example.com', operator: true },
      organizations: [{ id: org, role: 'owner' }],
    });
    t.match(dashboard.logs.join(''), /did not change the role of an organization's last owner/);
    t.match(dashboard.logs.join(''), /did not withdraw the operator rights of the last operator/);
    t.match(
      (await entries(`/organizations/${org}`)).find(({ action }) => action === 'member.last_owner_kept'),
      { actor: { type: 'identity_provider' }, detail: { from: 'owner', to: 'developer', email: 'owner@example.com' } },
    );
    t.match(
      (await entries('/operator')).find(({ action }) => action === 'user.operator_kept'),
      { detail: { email: 'owner@example.com' } },
    );
    // With a second owner and a second operator, both rights are withdrawn.
    const { client: second } = await come('second', ['llm-owners', 'llm-operators']);
    await come('op', ['llm-users'], { email: 'owner@example.com' });
    t.match(await last.get<Me>('/me'), { user: { operator: false }, organizations: [{ id: org, role: 'developer' }] });
    t.match(await second.get<Me>('/me'), { user: { operator: true }, organizations: [{ id: org, role: 'owner' }] });

    // The default role, another claim in another organization, and a scope that the provider needs for it.
    const other = await second.post<{ id: string }>('/organizations', { name: 'Other' });
    await restart({
      claim: 'groups',
      scopes: ['groups'],
      organization: other.id,
      roles: { 'llm-admins': 'admin' },
      default: 'viewer',
    });
    const { client: guest } = await come('guest', undefined, { groups: ['nothing'] });
    t.match(await guest.get<Me>('/me'), { organizations: [{ id: other.id, role: 'viewer' }] });
    const { client: promoted } = await come('ada', undefined, { groups: ['llm-admins'] });
    t.equal(provider.asked?.get('scope'), 'openid email profile groups');
    t.same(
      (await promoted.get<Me>('/me')).organizations.map(({ id, role }) => [id, role]),
      [
        [org, 'developer'],
        [other.id, 'admin'],
      ],
      'roles in other organizations stay',
    );

    // After the first organization is deleted, new users do not join another organization by default. Their sign-in
    // still succeeds.
    await restart(ROLES);
    const boss = (await come('second', ['llm-owners', 'llm-operators'])).client;
    await boss.delete(`/organizations/${org}`);
    t.equal(failureOf((await come('ada', ['llm-admins'])).end), null);
    t.match(dashboard.logs.join('\n'), /The first organization was deleted/);

    // With an organization that does not exist, the log names the reason, and operator rights follow the claim.
    await restart({ ...ROLES, organization: 'org_unknown' });
    const { end, client: late } = await come('ada', ['llm-admins']);
    t.equal(failureOf(end), null);
    t.match(dashboard.logs.join('\n'), /Organization not found/);
    t.match(await late.get<Me>('/me'), { user: { operator: false } });
  }),
);
