// Tests that another site's page cannot change anything with a signed-in user's cookie.
import t from 'tap';
import type { Me } from '../../src/shared/wire/users.js';
import { PASSWORD } from '../support/dashboard-client.js';
import { startDashboard } from '../support/dashboard-server.js';

t.setTimeout(300_000); // the machine may be busy

const dashboard = await startDashboard();
t.teardown(() => dashboard.close());
const client = dashboard.client();
const { organization } = await client.signUp({ email: 'a@example.com' });
const other = dashboard.client();
await other.signUp();
const token = (await client.get<Me>('/me')).csrf_token;

async function attempt(
  headers: Record<string, string>,
  path = '/organizations',
  body: unknown = { name: 'Made' },
): Promise<string> {
  const response = await client.fetch(path, { method: 'POST', body, headers });
  const answer = (await response.json()) as { error?: { code: string } };
  return answer.error?.code ?? String(response.status);
}

t.test('a request that changes something needs the CSRF token and the same origin', async (t) => {
  t.equal(await attempt({}), '200');
  t.equal(await attempt({ 'x-csrf-token': '' }), 'invalid_csrf_token', 'an empty CSRF token is refused');
  t.equal(await attempt({ 'x-csrf-token': `${token.slice(0, -1)}x` }), 'invalid_csrf_token');
  t.equal(
    await attempt({ 'x-csrf-token': (await other.get<Me>('/me')).csrf_token }),
    'invalid_csrf_token',
    "another session's CSRF token is refused",
  );
  t.equal(await attempt({ origin: '' }), 'invalid_csrf_token', 'a request without an origin is refused');
  t.equal(await attempt({ origin: 'null' }), 'invalid_csrf_token');
  t.equal(await attempt({ origin: 'https://evil.example' }), 'invalid_csrf_token');
  t.equal(
    await attempt({ origin: dashboard.url.replace('http:', 'https:') }),
    'invalid_csrf_token',
    'the same host with a different scheme is a different origin',
  );
  t.equal(
    await attempt({ origin: 'https://evil.example' }, `/organizations/${organization.id}/playground`, {}),
    'invalid_csrf_token',
  );
  for (const method of ['PATCH', 'DELETE']) {
    const response = await client.fetch(`/organizations/${organization.id}`, {
      method,
      headers: { 'x-csrf-token': '' },
      ...(method === 'PATCH' ? { body: {} } : {}),
    });
    t.match(await response.json(), { error: { code: 'invalid_csrf_token' } }, method);
  }
  const form = await fetch(`${dashboard.url}/dashboard/api/organizations`, {
    method: 'POST',
    body: '{"name":"Form"}',
    headers: {
      'content-type': 'text/plain',
      cookie: `sid=${client.cookie}`,
      origin: dashboard.url,
      'x-csrf-token': token,
    },
  });
  t.match(
    await form.json(),
    { error: { code: 'unsupported_media_type' } },
    'a form submission is refused because its body is not JSON',
  );
  t.match(await client.get('/organizations'), { data: { length: 2 } }, 'only the first request took effect');
});

t.test('login and sign-up requests from another origin are refused', async (t) => {
  const body = { email: 'a@example.com', password: PASSWORD };
  t.equal(await attempt({ origin: 'https://evil.example', cookie: '' }, '/login', body), 'invalid_csrf_token');
  t.equal(
    await attempt({ origin: 'https://evil.example', cookie: '' }, '/signup', { ...body, name: 'A' }),
    'invalid_csrf_token',
  );
  t.equal(
    await attempt({ origin: '', cookie: '' }, '/login', body),
    '200',
    'login without an origin works, because browsers always send one with a POST',
  );
});

t.test('responses carry no CORS headers, so other sites cannot read them', async (t) => {
  const response = await client.fetch('/me', { headers: { origin: 'https://evil.example' } });
  t.equal(response.headers.get('access-control-allow-origin'), null);
  t.equal(response.headers.get('cross-origin-resource-policy'), 'same-origin');
  const preflight = await fetch(`${dashboard.url}/dashboard/api/me`, {
    method: 'OPTIONS',
    headers: { origin: 'https://evil.example', 'access-control-request-method': 'PATCH' },
  });
  t.equal(preflight.headers.get('access-control-allow-methods'), null);
});

t.test('the configured dashboard URL is accepted as the origin', async (t) => {
  const named = await startDashboard({ dashboard: { url: 'https://models.example.com/' } });
  t.teardown(() => named.close());
  const code = new URL(named.server.setupUrl as string).searchParams.get('code');
  const user = named.client();
  const made = await user.fetch('/signup', {
    method: 'POST',
    body: { email: 'a@example.com', password: PASSWORD, name: 'A', code },
    headers: { origin: 'https://models.example.com' },
  });
  t.equal(made.status, 200);
  const { csrf_token: own } = await user.get<Me>('/me');
  const post = (origin: string): Promise<Response> =>
    user.fetch('/organizations', { method: 'POST', body: { name: 'B' }, headers: { origin, 'x-csrf-token': own } });
  t.equal((await post('https://models.example.com')).status, 200);
  t.equal((await post('https://models.example.com.evil.example')).status, 403);
});
