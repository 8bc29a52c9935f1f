// Tests the dashboard's limits route (…/limits): current limits and usage. Changes by an operator take effect
// immediately.
import t from 'tap';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { LimitsObject } from '../../src/shared/wire/limits.js';
import { eventually } from '../e2e/monolith.js';
import { refusal } from '../support/dashboard-client.js';
import { openOwned } from '../support/owned-server.js';

t.setTimeout(300_000); // the machine may be busy

const { server, owner, organization, client, close } = await openOwned({
  env: {
    MONOLITH_LIMITS_OVERRIDES: JSON.stringify({
      '*': { 'hal-1.0': { rpm: 60, tpm: 60_000 }, 'tycho-1.0': { tpm: null } },
    }),
  },
});
t.teardown(close);
const PATH = `/organizations/${organization.id}/limits`;
const key = await owner.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, { name: 'test' });
const limits = (): Promise<LimitsObject> => owner.get(PATH);

const send = (body: object, signal?: AbortSignal) =>
  fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ model: 'hal-1.0', ...body }),
    headers: { authorization: `Bearer ${key.secret}`, 'content-type': 'application/json' },
    ...(signal === undefined ? {} : { signal }),
  });

t.test('an organization that has sent no requests has its full limits remaining', async (t) => {
  t.match(await limits(), {
    object: 'limits',
    models: [
      {
        model: 'hal-1.0',
        requests: { limit: 60, remaining: 60, reset_ms: 0 },
        tokens: { limit: 60_000, remaining: 60_000 },
        concurrency: { limit: 99, in_use: 0 },
      },
      { model: 'clarke-1.0', requests: { limit: 9_999, remaining: 9_999 } },
      { model: 'tycho-1.0', tokens: { limit: null, remaining: null, reset_ms: null } },
    ],
    month: { tokens: 0, cap: null, resets_at: /^\d{4}-\d\d-01T00:00:00\.000Z$/ },
  });
});

t.test('a running request counts against the limits until it ends', async (t) => {
  const controller = new AbortController();
  const response = await send(
    { messages: [{ role: 'user', content: 'L: x' }], max_tokens: 5_000, stream: true, n: 2 },
    controller.signal,
  );
  await response.body!.getReader().read();
  const [hal] = (await limits()).models;
  t.match(hal, { requests: { remaining: 59 }, concurrency: { in_use: 2 } });
  t.ok(hal!.tokens.remaining! < 60_000 - 9_000 + 2_000);
  t.ok(hal!.tokens.reset_ms! > 0);
  controller.abort();
  t.ok(
    await eventually(async () => (await limits()).models[0]!.concurrency.in_use === 0),
    'the concurrency slot is free soon after the request is aborted',
  );
  t.ok(await eventually(async () => (await limits()).month.tokens > 0));
});

t.test("an operator's change of the limits takes effect immediately", async (t) => {
  await owner.patch(`/operator/organizations/${organization.id}`, {
    limits: { '*': { rpm: 2, concurrency: null } },
    monthly_token_cap: 1_000_000,
  });
  t.match(await limits(), {
    models: [{ requests: { limit: 2 }, concurrency: { limit: null, in_use: 0 } }],
    month: { cap: 1_000_000 },
  });
  let refused = await send({ messages: [{ role: 'user', content: 'A: x' }] });
  t.equal(refused.status, 200, 'the bucket keeps its fill level, so at least one request is left');
  for (let i = 0; i < 2 && refused.status === 200; i++)
    refused = await send({ messages: [{ role: 'user', content: 'A: x' }] });
  t.equal(refused.status, 429);
  t.equal(refused.headers.get('x-ratelimit-limit-requests'), '2');
  t.equal(refused.headers.get('x-ratelimit-limit-concurrency'), null);
});

t.test("a key's own limits apply where they are tighter than the organization's", async (t) => {
  await owner.patch(`/operator/organizations/${organization.id}`, { limits: {} });
  const bound = await owner.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, {
    name: 'bound',
    limits: { 'clarke-1.0': { rpm: 1 } },
  });
  const ask = (secret: string) =>
    fetch(`${server.url}/v1/messages`, {
      method: 'POST',
      body: JSON.stringify({ model: 'clarke-1.0', max_tokens: 50, messages: [{ role: 'user', content: 'A: x' }] }),
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    });
  const first = await ask(bound.secret);
  t.equal(first.status, 200);
  t.equal(first.headers.get('anthropic-ratelimit-requests-limit'), '1');
  t.equal(first.headers.get('anthropic-ratelimit-tokens-limit'), '999999');
  const second = await ask(bound.secret);
  t.equal(second.status, 429);
  t.match(await second.json(), { error: { message: /this API key/, code: 'rpm_limit_exceeded' } });
  t.equal((await ask(key.secret)).status, 200, 'another key is not limited');
});

t.test('requests without a session get 401 and other users get 404', async (t) => {
  t.match(await refusal(client().get(PATH)), { status: 401 });
  const stranger = client();
  await stranger.signUp();
  t.match(await refusal(stranger.get(PATH)), { status: 404 });
});
