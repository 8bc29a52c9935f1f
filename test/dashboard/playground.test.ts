// Tests the playground, which sends requests on behalf of the organization. Responses, limits and errors are the same
// as with an API key.
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import t from 'tap';
import type { UsagePage } from '../../src/shared/wire/usage.js';
import { eventually } from '../e2e/monolith.js';
import { refusal } from '../support/dashboard-client.js';
import { startDashboard } from '../support/dashboard-server.js';

const dashboard = await startDashboard({ limits: { rpm: 4 } });
t.teardown(() => dashboard.close());
const client = dashboard.client();
const {
  organization: { id },
} = await client.signUp();
const path = `/organizations/${id}/playground`;
const body = { model: 'hal-1.0', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 8 };

t.test('a request without stream returns a complete response', async (t) => {
  const response = await client.fetch(path, { method: 'POST', body });
  t.equal(response.status, 200);
  t.match(await response.json(), {
    object: 'chat.completion',
    model: 'hal-1.0',
    choices: [{ message: { role: 'assistant' } }],
    usage: { completion_tokens: Number },
  });
  t.equal(response.headers.get('x-ratelimit-limit-requests'), '4');
  t.equal(response.headers.get('x-ratelimit-remaining-requests'), '3');
});

t.test('a request with stream returns server-sent events', async (t) => {
  const response = await client.fetch(path, { method: 'POST', body: { ...body, stream: true } });
  t.match(response.headers.get('content-type'), 'text/event-stream');
  const text = await response.text();
  t.match(text, /"object":"chat.completion.chunk"/);
  t.match(text, /data: \[DONE\]\n\n$/);
  t.equal(response.headers.get('cache-control'), 'no-store, no-transform');
});

t.test('a disconnected client cancels its generation', async (t) => {
  const abort = new AbortController();
  const response = await client.fetch(path, {
    method: 'POST',
    body: { ...body, max_tokens: 4_000, stream: true },
    signal: abort.signal,
  });
  await response.body?.getReader().read();
  abort.abort();
  for (let i = 0; i < 100 && dashboard.server.http.inFlight > 0; i++) await new Promise((done) => setTimeout(done, 20));
  t.equal(dashboard.server.http.inFlight, 0);
});

t.test('playground errors are the same as those of the API', async (t) => {
  t.match(await refusal(client.post(path, { ...body, model: 'none-1.0' })), {
    status: 404,
    code: 'model_not_found',
    param: 'model',
  });
  t.match(await refusal(client.post(path, { ...body, temperature: 7 })), {
    status: 422,
    code: 'value_out_of_range',
    param: 'temperature',
  });
  t.match(await refusal(client.post(path)), { status: 400, code: 'invalid_body' });
  t.equal((await client.fetch(path, { method: 'POST', body })).status, 200);
  const limited = await client.fetch(path, { method: 'POST', body });
  t.equal(limited.status, 429, "the organization's request limit is used up");
  t.match(await limited.json(), { error: { code: 'rpm_limit_exceeded' } });
  const key = dashboard.server.createdKey as string;
  const withKey = await fetch(`${dashboard.url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
  });
  t.equal(withKey.status, 429, "the organization's keys share the same limit");
  t.match(
    await (
      await fetch(`${dashboard.url}/dashboard/api${path}`, {
        method: 'POST',
        body: JSON.stringify(body),
        headers: { authorization: `Bearer ${key}` },
      })
    ).json(),
    { error: { code: 'not_signed_in' } },
  );
});

t.test('playground responses and refusals are counted in the usage', async (t) => {
  const used = (): Promise<UsagePage> => client.get<UsagePage>(`/organizations/${id}/usage?group_by=api_key,endpoint`);
  t.ok(await eventually(async () => (await used()).data.some(({ rate_limited: limited }) => limited > 0)));
  const { data } = await used();
  t.same([...new Set(data.map(({ endpoint }) => endpoint))], ['/v1/chat/completions']);
  t.match(
    data.find(({ api_key_id: key }) => key === 'playground'),
    { requests: 4, errors: 3, rate_limited: 1 },
  );
});

// Only the head is sent, so if a response arrives, the server did not wait for the body.
t.test('a request without a session is refused before its body is read', async (t) => {
  const sent = request(`${dashboard.url}/dashboard/api${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'content-length': 1000 },
  });
  sent.flushHeaders();
  sent.on('error', () => {}); // the server may close the connection before the rest is sent
  const [answer] = (await once(sent, 'response', { signal: AbortSignal.timeout(20_000) })) as [IncomingMessage];
  t.equal(answer.statusCode, 401);
  sent.destroy();
});
