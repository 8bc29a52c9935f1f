// Tests sign-in and sign-out, the session cookie, rate limits and session expiry.
import { scryptSync } from 'node:crypto';
import http from 'node:http';
import t from 'tap';
import { MAX_SESSIONS } from '../../src/accounts/sessions.js';
import { SessionTable } from '../../src/storage/lmdb/accounts/session-table.js';
import { UserTable } from '../../src/storage/lmdb/accounts/user-table.js';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { SessionObject } from '../../src/shared/wire/users.js';
import { eventually } from '../e2e/monolith.js';
import { PASSWORD, refusal } from '../support/dashboard-client.js';
import { startDashboard, folderDirectory } from '../support/dashboard-server.js';

t.setTimeout(300_000); // password hashing is slow on a busy machine

const dashboard = await startDashboard();
t.teardown(() => dashboard.close());
const operator = dashboard.client();
await operator.signUp({ email: 'operator@example.com' });

t.test('login sets an HttpOnly session cookie, and logout ends the session', async (t) => {
  const client = dashboard.client();
  const response = await client.fetch('/login', {
    method: 'POST',
    body: { email: 'OPERATOR@example.com', password: PASSWORD },
  });
  t.match(response.headers.get('set-cookie'), /^sid=[\w-]{43}; HttpOnly; SameSite=Lax; Path=\/; Max-Age=2592000$/);
  t.equal(response.headers.get('cache-control'), 'no-store');
  t.equal(response.headers.get('x-content-type-options'), 'nosniff');
  t.equal(response.headers.get('access-control-allow-origin'), null);
  t.same(Object.keys((await response.json()) as object), ['user']);
  const stored = await dashboard.inside(async (store) => JSON.stringify([...store.table('sessions').range()]));
  t.notMatch(stored, client.cookie as string, 'the cookie is not stored in plain text');

  t.equal((await dashboard.client().fetch('/me', { headers: { cookie: 'sid=nonsense' } })).status, 401);
  t.equal((await dashboard.client().fetch('/me', { headers: { cookie: `sid=${'A'.repeat(43)}` } })).status, 401);
  t.match(await refusal(dashboard.client().get('/me')), { status: 401, code: 'not_signed_in' });
});

t.test('the cookie is Secure when the dashboard URL uses https', async (t) => {
  const secure = await startDashboard({
    dashboard: { url: 'https://models.example.com' },
    accounts: { signup: 'open' },
  });
  t.teardown(() => secure.close());
  const code = new URL(secure.server.setupUrl as string);
  t.equal(code.origin, 'https://models.example.com');
  const client = secure.client();
  const body = { email: 'a@example.com', password: PASSWORD, name: 'A', code: code.searchParams.get('code') };
  const response = await client.fetch('/signup', {
    method: 'POST',
    body,
    headers: { origin: 'https://models.example.com' },
  });
  t.match(response.headers.get('set-cookie'), /; Secure$/);
});

t.test('an API key does not work for the dashboard, and a session cookie does not work for the API', async (t) => {
  const key = dashboard.server.createdKey as string;
  t.match(
    await (await fetch(`${dashboard.url}/dashboard/api/me`, { headers: { authorization: `Bearer ${key}` } })).json(),
    { error: { code: 'not_signed_in' } },
  );
  t.match(await (await fetch(`${dashboard.url}/v1/models`, { headers: { cookie: `sid=${operator.cookie}` } })).json(), {
    error: { code: 'missing_api_key' },
  });
});

t.test('sessions can be listed and revoked', async (t) => {
  const other = dashboard.client();
  await other.login('operator@example.com');
  const { data } = await operator.get<ListPage<SessionObject>>('/sessions');
  t.equal(data.filter(({ current }) => current).length, 1);
  t.match(data[0], { id: /^sess_/, ip: '127.0.0.1', user_agent: /\w/ });
  const victim = data.find(({ id }) => id !== data.find(({ current }) => current)?.id) as SessionObject;
  const stranger = dashboard.client();
  await stranger.signUp();
  t.match(await refusal(stranger.delete(`/sessions/${victim.id}`)), { status: 404, code: 'resource_not_found' });
  await operator.delete(`/sessions/${victim.id}`);
  t.match(await refusal(operator.delete(`/sessions/${victim.id}`)), { status: 404 });
  t.match(await refusal(stranger.get('/sessions?limit=0')), {
    status: 422,
    code: 'value_out_of_range',
    param: 'limit',
  });
  t.match(await refusal(stranger.get('/sessions?limit=x')), {
    status: 400,
    code: 'invalid_query_parameter',
    param: 'limit',
  });
  t.match(await refusal(stranger.get('/sessions?after=sess_x')), {
    status: 404,
    code: 'item_not_found',
    param: 'after',
  });

  const cookie = other.cookie;
  await other.logout().catch(() => undefined); // this session may be the revoked one
  const ghost = dashboard.client();
  ghost.cookie = cookie;
  t.match(await refusal(ghost.get('/me')), { status: 401 });
});

t.test('signing in again ends the previous session of the client', async (t) => {
  const client = dashboard.client();
  await client.login('operator@example.com');
  const before = client.cookie;
  await client.login('operator@example.com');
  const ghost = dashboard.client();
  ghost.cookie = before;
  t.match(await refusal(ghost.get('/me')), { status: 401 });
});

t.test('sessions expire and are limited in number per user', async (t) => {
  const client = dashboard.client();
  const { user } = await client.signUp();
  type Row = { userId: string; createdAt: number; lastSeenAt: number };
  const age = (change: (row: Row) => Row): Promise<void> =>
    dashboard.inside(async (store) => {
      const table = store.table<Row>('sessions');
      for (const { key, value } of [...table.range({ from: ['hash'], to: ['hash', '\uffff'] })])
        if (value.userId === user.id) await table.put(key, change(value));
    });
  const hours = 3_600_000;
  await age((row) => ({ ...row, lastSeenAt: Date.now() - 11.9 * hours }));
  await client.get('/me');
  const seen = async (): Promise<boolean> => {
    let recent = true;
    await dashboard.inside(async (store) => {
      for (const { value } of store.table<Row>('sessions').range({ from: ['hash'], to: ['hash', '\uffff'] }))
        if (value.userId === user.id) recent &&= Date.now() - value.lastSeenAt < hours;
    });
    return recent;
  };
  t.ok(await eventually(seen), 'a request updates the last-seen time');
  await age((row) => ({ ...row, lastSeenAt: Date.now() - 12.1 * hours }));
  t.match(await refusal(client.get('/me')), { status: 401 }, 'a session expires after 12 hours without use');
  await age((row) => ({ ...row, lastSeenAt: Date.now(), createdAt: Date.now() - 30.1 * 24 * hours }));
  t.match(await refusal(client.get('/me')), { status: 401 }, 'a session expires 30 days after its start');

  await dashboard.inside(async (store) => {
    const sessions = new SessionTable(store);
    const count = (): number =>
      [...store.table('sessions').keys({ from: ['user', user.id], to: ['user', user.id, '\uffff'] })].length;
    await sessions.sweep();
    t.equal(count(), 0, 'sweep() deletes expired sessions');
    for (let i = 0; i < MAX_SESSIONS + 5; i++)
      await store.transaction(() => sessions.begin(user.id, '127.0.0.1', 'test'));
    t.equal(count(), MAX_SESSIONS);
  });
});

t.test('failed sign-ins are rate-limited and do not reveal which accounts exist', async (t) => {
  const own = await startDashboard();
  t.teardown(() => own.close());
  const owner = own.client();
  await owner.signUp({ email: 'owner@example.com' });
  const client = own.client();
  const known = await refusal(client.login('owner@example.com', 'not the password'));
  const unknown = await refusal(client.login('nobody@example.com', 'not the password'));
  t.match(known, { status: 401, code: 'invalid_credentials' });
  t.equal(known.message, unknown.message, 'the message is the same for existing and unknown accounts');
  t.match(
    await refusal(client.login('\ufdfa'.repeat(1_000))),
    { status: 401, code: 'invalid_credentials' },
    'an address longer than a database key is refused like any other',
  );
  await own.inside((store) =>
    store.transaction(() => {
      folderDirectory(own.server).attempts.resetAttempts('login', 'address 127.0.0.1');
    }),
  );
  await client.login('owner@example.com');
  // An address is limited to 10 failures. Two have already occurred, and the next line adds seven. The following
  // attempts run concurrently, because parallel attempts must not allow more failures than the limit.
  const { attempts } = own.server.directory;
  for (let i = 0; i < 7; i++) await attempts.count('login', ['address 127.0.0.1']);
  const tries = await Promise.all(
    Array.from({ length: 4 }, () => refusal(client.login('owner@example.com', 'guess guess guess'))),
  );
  t.equal(tries.filter(({ status }) => status === 401).length, 1);
  t.equal(tries.filter(({ code }) => code === 'too_many_attempts').length, 3);
  const late = await client.fetch('/login', {
    method: 'POST',
    body: { email: 'owner@example.com', password: PASSWORD },
  });
  t.equal(late.status, 429, 'even the correct password is refused while the limit is exceeded');
  t.ok(Number(late.headers.get('retry-after')) >= 1);
});

t.test('failed sign-ins for one email address are limited across client addresses', async (t) => {
  const own = await startDashboard({ http: { trust_proxy: true }, accounts: { signup: 'open' } });
  t.teardown(() => own.close());
  const code = new URL(own.server.setupUrl as string).searchParams.get('code') as string;
  await own.client().signUp({ email: 'owner@example.com', code });
  const attempt = async (address: string): Promise<number> =>
    (
      await own.client().fetch('/login', {
        method: 'POST',
        body: { email: 'owner@example.com', password: 'guess guess guess' },
        headers: { 'x-forwarded-for': `9.9.9.9, ${address}` },
      })
    ).status;
  for (let i = 0; i < 9; i++)
    await own.server.directory.attempts.count('login', ['email owner@example.com', `address 10.0.1.${i}`]);
  t.equal(await attempt('10.0.0.1'), 401);
  t.equal(await attempt('10.0.0.2'), 429);
});

t.test('the client address is the last one the proxy added, in any notation', async (t) => {
  const own = await startDashboard({ http: { trust_proxy: true }, accounts: { signup: 'open' } });
  t.teardown(() => own.close());
  for (let i = 0; i < 10; i++) await own.server.directory.attempts.count('login', ['address 10.0.0.1']);
  const attempt = (...lines: string[]): Promise<number> =>
    new Promise((resolve, reject) => {
      const request = http.request(
        `${own.url}/dashboard/api/login`,
        { method: 'POST', headers: { 'content-type': 'application/json', 'x-forwarded-for': lines } },
        (response) => {
          response.resume();
          resolve(response.statusCode ?? 0);
        },
      );
      request.on('error', reject).end(JSON.stringify({ email: 'nobody@example.com', password: 'guess guess guess' }));
    });
  t.equal(await attempt('10.0.0.1'), 429);
  t.equal(await attempt('9.9.9.9', '10.0.0.1'), 429, "the proxy adds its own header line after the client's");
  t.equal(await attempt('10.0.0.1:50123'), 429, 'with a port');
  t.equal(await attempt('[::ffff:10.0.0.1]:50123'), 429);
  t.equal(await attempt('10.0.0.1', '9.9.9.9'), 401);
});

t.test('a password hash with outdated cost parameters is replaced at sign-in', async (t) => {
  const { user } = await dashboard.client().signUp({ email: 'old@example.com' });
  const { users, store } = folderDirectory(dashboard.server);
  const salt = Buffer.alloc(16, 7);
  const old = `$scrypt$ln=12,r=8,p=1$${salt.toString('base64')}$${scryptSync(PASSWORD, salt, 32, { N: 2 ** 12, r: 8, p: 1 }).toString('base64')}`;
  await store.transaction(() => new UserTable(store).change(user.id, { passwordHash: old }));
  await dashboard.client().login('old@example.com');
  t.match((await users.get(user.id))?.passwordHash, /^\$scrypt\$ln=15,r=8,p=3\$/);
  await dashboard.client().login('old@example.com');
});

t.test('a locked user is signed out and cannot sign in', async (t) => {
  const client = dashboard.client();
  const { user } = await client.signUp({ email: 'locked@example.com' });
  await operator.login('operator@example.com');
  await operator.patch(`/operator/users/${user.id}`, { locked: true });
  t.match(await refusal(client.get('/me')), { status: 401, code: 'not_signed_in' });
  t.match(
    await refusal(client.login('locked@example.com', 'not the password')),
    { status: 401, code: 'invalid_credentials' },
    'the lock is revealed only if the password is correct',
  );
  t.match(await refusal(client.login('locked@example.com')), { status: 403, code: 'user_locked' });
  await operator.patch(`/operator/users/${user.id}`, { locked: false });
  await client.login('locked@example.com');
});
