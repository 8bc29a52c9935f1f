// Tests signing in with OpenID Connect against a real provider, following its redirects as a browser does.
import t from 'tap';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { AuditEntry, InviteObject } from '../../src/shared/wire/organizations.js';
import type { DashboardStatus, Me, SecondFactorProposal, RecoveryCodes } from '../../src/shared/wire/users.js';
import { PASSWORD, refusal } from '../support/dashboard-client.js';
import type { DashboardClient } from '../support/dashboard-client.js';
import { startDashboard } from '../support/dashboard-server.js';
import { failureOf, followSignIn, type FollowOptions } from '../support/oidc-browser.js';
import { startOidcProvider } from '../support/oidc-provider.js';
import { codeOf, roomInStep } from '../support/one-time-codes.js';

t.setTimeout(300_000); // password hashing is slow on a busy machine

const provider = await startOidcProvider();
t.teardown(() => provider.close());
const oidc = {
  issuer: provider.issuer,
  client_id: provider.clientId,
  client_secret: provider.clientSecret,
  name: 'Example ID',
  signup: 'open',
};
const dashboard = await startDashboard({ oidc });
t.teardown(() => dashboard.close());
provider.register(`${dashboard.url}/dashboard/api/oidc/callback`);

const follow = (client: DashboardClient, from: string, more?: FollowOptions): Promise<URL> =>
  followSignIn(client, dashboard.url, from, more);
const come = (client: DashboardClient, query = ''): Promise<URL> => follow(client, `/dashboard/api/oidc/start${query}`);

const ADA = { sub: 'ada', email: 'Ada@example.com', email_verified: true, name: 'Ada' };
const operator = dashboard.client();

t.test('invalid OIDC settings prevent the start', async (t) => {
  await t.rejects(startDashboard({ oidc: { ...oidc, client_id: null } }), {
    name: 'StartError',
    message: /oidc\.client_id/,
  });
  await t.rejects(startDashboard({ oidc: { ...oidc, issuer: 'http://accounts.example.com' } }), {
    name: 'StartError',
    message: /https/,
  });
});

t.test('the first account needs a password', async (t) => {
  provider.person = ADA;
  t.equal(failureOf(await come(dashboard.client())), 'first_user');
  await operator.signUp({ email: 'operator@example.com' });
  t.match(await operator.get<DashboardStatus>('/status'), { oidc: { name: 'Example ID' } });
});

t.test('the first OIDC sign-in creates an account and later ones find it', async (t) => {
  const client = dashboard.client();
  const end = await come(client, '?next=/keys');
  t.equal(end.pathname, '/dashboard/keys');
  t.match(Object.fromEntries(provider.asked ?? []), {
    response_type: 'code',
    code_challenge_method: 'S256',
    code_challenge: /^[\w-]{43}$/,
    state: /./,
    nonce: /./,
    scope: 'openid email profile',
  });
  const me = await client.get<Me>('/me');
  t.match(me, {
    user: { email: 'ada@example.com', name: 'Ada', email_verified: true, has_password: false, operator: false },
    oidc_linked: true,
    organizations: [{ role: 'owner' }],
  });
  t.match(me.user.last_login_at, /^\d{4}-/, 'an account that a provider created has a last sign-in');
  provider.person = { ...ADA, email: 'countess@example.com' };
  const again = dashboard.client();
  t.equal(
    (await come(again, '?next=//evil.example')).href,
    `${dashboard.url}/dashboard/`,
    'a redirect target on another site is ignored',
  );
  t.match(
    await again.get<Me>('/me'),
    { user: { id: me.user.id, email: 'ada@example.com' } },
    "the account is found by the provider's subject, whatever its email address at the provider",
  );
  t.match(
    await refusal(dashboard.client().login('ada@example.com', ' ')),
    { code: 'invalid_credentials' },
    'the account has no password to sign in with',
  );
  t.match(
    await refusal(again.post('/oidc/unlink')),
    { status: 422 },
    "the account's only way to sign in cannot be unlinked",
  );
  // For an account without a password, a recent sign-in replaces the password check.
  const { secret } = await again.post<SecondFactorProposal>('/second-factor/begin', {});
  await roomInStep();
  const {
    recovery_codes: [code],
  } = await again.post<RecoveryCodes>('/second-factor/enable', { code: codeOf(secret, -1) });
  const third = dashboard.client();
  const end3 = await come(third, '?next=/keys');
  t.equal(end3.pathname + end3.search, '/dashboard/signin?next=%2Fkeys');
  t.equal(third.cookie, null, "the provider's sign-in does not replace the second factor");
  await third.post('/login/code', { ticket: end3.hash.slice('#ticket='.length), code: codeOf(secret) });
  await third.get('/me');
  await third.post('/second-factor/disable', { code });
  await dashboard.inside(async (store) => {
    const table = store.table<{ userId: string; createdAt: number }>('sessions');
    for (const { key, value } of [...table.range({ from: ['hash'], to: ['hash', '\uffff'] })])
      if (value.userId === me.user.id) await table.put(key, { ...value, createdAt: Date.now() - 601_000 });
  });
  t.match(await refusal(third.post('/email/change', { email: 'x@example.com' })), {
    status: 403,
    code: 'recent_sign_in_required',
  });
});

t.test('a sign-in is refused unless the address is verified, allowed, invited and not taken', async (t) => {
  const failure = async (person: typeof provider.person, query = ''): Promise<string | null> => {
    provider.person = person;
    const client = dashboard.client();
    const found = failureOf(await come(client, query));
    t.equal(client.cookie, null);
    return found;
  };
  t.equal(await failure(null), 'denied');
  t.equal(await failure({ sub: 'b' }), 'no_email');
  t.equal(await failure({ sub: 'b', email: 'b@example.com', email_verified: false }), 'no_email');
  t.equal(
    await failure({ sub: 'b', email: 'operator@example.com', email_verified: true }),
    'account_exists',
    'the existing account has never verified this address',
  );
  const {
    data: [organization],
  } = await operator.get<{ data: { id: string }[] }>('/organizations');
  const { url } = await operator.post<InviteObject>(`/organizations/${organization?.id}/invites`, {
    email: 'c@example.com',
    role: 'developer',
  });
  const invite = new URL(url ?? '').searchParams.get('token') ?? '';
  t.equal(
    await failure({ sub: 'b', email: 'b@example.com', email_verified: true }, `?invite=${invite}`),
    'invite',
    'the invitation is for another address',
  );
  const guest = dashboard.client();
  provider.person = { sub: 'c', email: 'c@example.com', email_verified: true };
  await come(guest, `?invite=${invite}`);
  t.match(await guest.get<Me>('/me'), {
    user: { name: 'c' },
    organizations: [{ id: organization?.id, role: 'developer' }],
  });
  await operator.patch(`/operator/users/${(await guest.get<Me>('/me')).user.id}`, { locked: true });
  t.equal(failureOf(await come(dashboard.client())), 'locked');

  await dashboard.restart({ oidc: { ...oidc, signup: 'invited', domains: ['Example.com'] } });
  operator.cookie = null;
  provider.register(`${dashboard.url}/dashboard/api/oidc/callback`);
  t.equal(await failure({ sub: 'd', email: 'd@example.com', email_verified: true }), 'no_account');
  t.equal(
    await failure({ ...ADA, email: 'ada@elsewhere.example' }),
    'domain',
    'a user whose address is no longer in an allowed domain is refused',
  );
  t.equal(await failure({ ...ADA, email: 'ada@evil-example.com' }), 'domain');
});

t.test('an identity can be linked to an existing account and unlinked again', async (t) => {
  const client = dashboard.client();
  await client.login('operator@example.com');
  const link = async (): Promise<URL> => {
    const { url } = await client.post<{ url: string }>('/oidc/link');
    const journey = /oidc=([^;]*)/.exec(client.headers.getSetCookie()[0] ?? '')?.[1] ?? '';
    return follow(client, url, { journey });
  };
  provider.person = ADA;
  t.equal((await link()).search, '?oidc=taken', 'the identity already belongs to another account');
  provider.person = { sub: 'op', email: 'operator@example.com', email_verified: true };
  t.equal((await link()).search, '?oidc=linked');
  t.match(await client.get<Me>('/me'), { oidc_linked: true, user: { has_password: true } });
  const elsewhere = dashboard.client();
  t.equal((await come(elsewhere)).pathname, '/dashboard/');
  t.match(await elsewhere.get<Me>('/me'), { user: { email: 'operator@example.com' } });
  await client.post('/oidc/unlink');
  t.equal(failureOf(await come(dashboard.client())), 'account_exists');
  const { data } = await client.get<ListPage<AuditEntry>>('/operator/audit-log');
  t.same(
    data
      .filter(({ action }) => action.startsWith('user.identity_'))
      .map(({ action, actor }) => `${action} ${actor.email}`),
    [
      'user.identity_unlinked operator@example.com',
      'user.identity_linked operator@example.com',
      'user.identity_linked c@example.com',
      'user.identity_linked ada@example.com',
    ],
  );
});

t.test('a callback from another browser or with changed parameters is refused', async (t) => {
  provider.person = ADA;
  const failing = async (change: (url: URL) => void): Promise<string | null> =>
    failureOf(
      await follow(dashboard.client(), '/dashboard/api/oidc/start', {
        change: (url) => {
          if (url.pathname.endsWith('/callback')) change(url);
        },
      }),
    );
  t.equal(await failing((url) => url.searchParams.set('state', 'another')), 'failed');
  t.equal(await failing((url) => url.searchParams.set('code', 'another')), 'failed');
  t.equal(await failing((url) => url.searchParams.set('iss', 'https://another.example')), 'failed');
  t.equal(
    failureOf(await follow(dashboard.client(), '/dashboard/api/oidc/callback?code=x&state=y')),
    'expired',
    'a callback without the cookie set at the start is refused',
  );
  t.match(dashboard.logs.join(''), /sign-in at the provider of oidc\.issuer failed/);
  await provider.close();
  await dashboard.restart({ oidc });
  t.equal(failureOf(await come(dashboard.client())), 'unreachable');
  t.notMatch(dashboard.logs.join(''), provider.clientSecret);
  await dashboard.client().login('operator@example.com', PASSWORD);
  t.pass('password sign-in still works');
});
