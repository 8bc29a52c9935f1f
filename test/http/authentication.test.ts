import t from 'tap';
import { echoRoutes, errorOf, startRoutes } from './running-server.js';

t.test('requests are authenticated with an API key', async (t) => {
  const server = await startRoutes(echoRoutes);
  t.teardown(() => server.close());
  const get = (headers: Record<string, string>): Promise<Response> => fetch(`${server.url}/v1/things/1`, { headers });
  const wrong = 'sk-00000000-0000000000000000000000000000000000000000';

  t.test('a key is accepted in either header, with any case of the scheme', async (t) => {
    t.equal((await get({ authorization: `Bearer ${server.key}` })).status, 200);
    t.equal((await get({ authorization: `bEARER   ${server.key}` })).status, 200);
    t.equal((await get({ 'x-api-key': server.key })).status, 200);
    t.equal(
      (await get({ authorization: `Bearer ${wrong}`, 'x-api-key': server.key })).status,
      200,
      'one valid key is enough',
    );
    t.equal((await get({ authorization: 'Basic abc', 'x-api-key': server.key })).status, 200);
  });

  t.test('a missing key and an unknown key get 401', async (t) => {
    for (const [headers, code] of [
      [{}, 'missing_api_key'],
      [{ authorization: 'Basic abc' }, 'missing_api_key'],
      [{ authorization: 'Bearer ' }, 'missing_api_key'],
      [{ authorization: `Bearer ${wrong}` }, 'invalid_api_key'],
      [{ 'x-api-key': 'short' }, 'invalid_api_key'],
    ] as const) {
      const response = await get(headers);
      t.equal(response.status, 401);
      t.equal(response.headers.get('www-authenticate'), 'Bearer');
      t.match(await errorOf(response), { type: 'authentication_error', code, param: null });
    }
  });

  t.test('expired, revoked, suspended and out-of-scope keys are refused', async (t) => {
    const expired = await server.accounts.createKey({ name: 'a', expiresAt: new Date(Date.now() - 1000) });
    t.equal((await errorOf(await get({ 'x-api-key': expired.secret }))).code, 'api_key_expired');
    const revoked = await server.accounts.createKey({ name: 'b' });
    t.equal((await get({ 'x-api-key': revoked.secret })).status, 200);
    await server.accounts.revokeKey(revoked.key.id);
    t.equal((await errorOf(await get({ 'x-api-key': revoked.secret }))).code, 'api_key_revoked');
    const reader = await server.accounts.createKey({ name: 'c', scopes: ['models.read'] });
    const refused = await server.post('/v1/chat/completions', {}, { authorization: `Bearer ${reader.secret}` });
    t.equal(refused.status, 403);
    t.equal((await errorOf(refused)).code, 'endpoint_not_allowed');
    await server.accounts.setOrganizationStatus(
      (await server.accounts.organizations.all())[0]?.id as string,
      'suspended',
    );
    const suspended = await get({ 'x-api-key': server.key });
    t.equal(suspended.status, 403);
    t.equal((await errorOf(suspended)).code, 'organization_suspended');
    await server.accounts.setOrganizationStatus((await server.accounts.organizations.all())[0]?.id as string, 'active');
  });

  t.test('the path is checked first, then the key, then the body', async (t) => {
    const post = (path: string, headers: Record<string, string>, body: string): Promise<Response> =>
      fetch(server.url + path, { method: 'POST', headers, body });
    t.equal((await post('/v1/nothing', {}, '{')).status, 404);
    t.equal((await post('/v1/chat/completions', {}, '{')).status, 401);
    t.equal((await post('/v1/chat/completions', { 'x-api-key': server.key }, '{')).status, 400);
  });

  t.test('health endpoints need no key', async (t) => {
    t.equal((await fetch(`${server.url}/healthz`)).status, 200);
  });
});

t.test('log lines never contain keys', async (t) => {
  const server = await startRoutes(echoRoutes);
  t.teardown(() => server.close());
  await (await server.post('/v1/chat/completions', { secret: 'prompt text' })).text();
  const line = server.logs.find((one) => one.includes('/v1/chat/completions')) ?? '';
  t.match(JSON.parse(line), {
    msg: 'request',
    status: 200,
    method: 'POST',
    path: '/v1/chat/completions',
    request_id: /^req_/,
  });
  t.notMatch(server.logs.join(''), server.key.slice(12));
  t.notMatch(server.logs.join(''), /prompt text/);
});
