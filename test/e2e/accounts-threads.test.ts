// Tests that with two HTTP workers, a change made through one takes effect in both: keys, limits, suspension,
// lifecycle.

import OpenAI from 'openai';
import t from 'tap';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import { openOwned } from '../support/owned-server.js';
import { eventually } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const { server, owner, organization, close } = await openOwned({ args: ['--http-threads', '2'] });
t.teardown(close);
const model = 'tycho-1.0';
const LIST = `/organizations/${organization.id}/api-keys`;
const CONNECTIONS = 12; // each request opens its own connection, so that both workers get some of them

interface Answer {
  status: number;
  headers: Headers;
  code: string | null;
}

async function asked(key: string, path: string, body?: object): Promise<Answer[]> {
  return Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      const answer = await fetch(`${server.url}${path}`, {
        method: body === undefined ? 'GET' : 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', connection: 'close' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const json = (await answer.json()) as { error?: { code: string } };
      return { status: answer.status, headers: answer.headers, code: json.error?.code ?? null };
    }),
  );
}

const chat = { model, messages: [{ role: 'user', content: 'A: x' }] };
const MOMENT_MS = 900; // shorter than the second after which a worker rechecks a cached key on its own

/** Returns whether both workers respond as expected before they would recheck their caches without a notification. */
const onBoth = (
  key: string,
  path: string,
  body: object | undefined,
  wanted: (answer: Answer) => boolean,
): Promise<boolean> => eventually(async () => (await asked(key, path, body)).every(wanted), MOMENT_MS);

t.test('a new key and its revocation take effect on both HTTP workers immediately', async (t) => {
  const { id, secret } = await owner.post<CreatedApiKey>(LIST, { name: 'k' });
  t.ok((await asked(secret, '/v1/models')).every(({ status }) => status === 200));
  await owner.delete(`${LIST}/${id}`);
  t.ok(await onBoth(secret, '/v1/models', undefined, ({ code }) => code === 'api_key_revoked'));
});

t.test('a change of limits or of a model lifecycle applies on both HTTP workers', async (t) => {
  const { secret } = await owner.post<CreatedApiKey>(LIST, { name: 'k' });
  await asked(secret, '/v1/chat/completions', chat);
  await owner.patch(`/operator/organizations/${organization.id}`, { limits: { [model]: { rpm: 50_000 } } });
  await owner.patch(`/operator/models/${model}`, { lifecycle: 'deprecated' });
  t.ok(
    await onBoth(
      secret,
      '/v1/chat/completions',
      chat,
      ({ status, headers }) =>
        status === 200 &&
        headers.get('x-ratelimit-limit-requests') === '50000' &&
        headers.get('deprecation') === 'true',
    ),
  );
  await owner.patch(`/operator/models/${model}`, { lifecycle: 'retired' });
  t.ok(await onBoth(secret, '/v1/chat/completions', chat, ({ code }) => code === 'model_not_found'));
  await owner.patch(`/operator/models/${model}`, { lifecycle: 'active' });
});

t.test('draining and loading a model takes effect on both HTTP workers', async (t) => {
  const { secret } = await owner.post<CreatedApiKey>(LIST, { name: 'k' });
  await owner.post(`/operator/models/${model}/drain`);
  t.ok(await onBoth(secret, '/v1/chat/completions', chat, ({ code }) => code === 'model_unavailable'));
  await owner.post(`/operator/models/${model}/load`);
  t.ok(await onBoth(secret, '/v1/chat/completions', chat, ({ status }) => status === 200));
});

t.test(
  'a spent budget stops requests on every HTTP worker within 5 seconds, and running ones end normally',
  async (t) => {
    const budgets = `/organizations/${organization.id}/budgets`;
    const { secret, id } = await owner.post<CreatedApiKey>(LIST, { name: 'k' });
    const { secret: other } = await owner.post<CreatedApiKey>(LIST, { name: 'other' });
    const put = async (path: string, body: object): Promise<unknown> =>
      (await owner.fetch(path, { method: 'PUT', body })).json();
    const price = { input: 1e6, cached_input: 1e6, output: 1e6 };
    await put('/operator/prices', { currency: 'EUR', models: { [model]: price } });
    t.match(await put(`${budgets}/${id}`, { amount: 20 }), { scope: 'key', id, amount: 20, api_keys: [id] });
    const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: secret, maxRetries: 0 });
    const story = await openai.chat.completions.create({
      model,
      messages: [{ role: 'user', content: 'L: story' }],
      max_tokens: 15_000,
      stream: true,
    });
    const tokens = story[Symbol.asyncIterator]();
    t.ok((await tokens.next()).done !== true);
    await asked(secret, '/v1/chat/completions', chat);
    const recorded = performance.now();
    const isStopped = async (): Promise<boolean> =>
      (await asked(secret, '/v1/chat/completions', chat)).every(
        ({ status, code }) => status === 429 && code === 'insufficient_quota',
      );
    t.ok(await eventually(isStopped, 5_000), 'all workers refuse the key');
    t.ok(performance.now() - recorded < 6_000);
    for (let at = 0; at < 5; at++) t.ok((await tokens.next()).done !== true, 'a stream that was running continues');
    story.controller.abort();
    t.ok(
      (await asked(other, '/v1/chat/completions', chat)).every(({ status }) => status === 200),
      'another key is not stopped',
    );
    t.ok(
      (await asked(secret, '/v1/models')).every(({ status }) => status === 200),
      'requests that cost nothing are served',
    );
    const post = async (path: string, body: object): Promise<[Headers, unknown]> => {
      const answer = await fetch(`${server.url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model, ...body }),
      });
      return [answer.headers, await answer.json()];
    };
    const message = /^This API key has spent its budget of 20 EUR for \d{4}-\d\d\. Requests are refused until/;
    const error = { type: 'rate_limit_error', code: 'insufficient_quota', message };
    t.match(await post('/v1/responses', { input: 'A: x' }), [{}, { error }]);
    const [headers, body] = await post('/v1/messages', { max_tokens: 5, messages: chat.messages });
    t.match(body, { type: 'error', error: { ...error, details: { error_code: 'insufficient_quota' } } });
    t.equal(headers.get('x-should-retry'), 'false');
    t.match(await owner.get(`${budgets}/stopped`), { currency: 'EUR', data: [{ scope: 'key', id, amount: 20 }] });

    await put(`/organizations/${organization.id}/budget`, { amount: 1, stops: true, mail: false });
    t.ok(
      await eventually(
        async () =>
          (await asked(other, '/v1/chat/completions', chat)).every(({ code }) => code === 'insufficient_quota'),
        5_000,
      ),
      "the organization's budget stops its other keys",
    );
    const playground = await owner.fetch(`/organizations/${organization.id}/playground`, {
      method: 'POST',
      body: chat,
    });
    t.match(
      [playground.status, await playground.json()],
      [429, { error: { message: /^This organization has spent/ } }],
    );
    t.match(
      await (await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${server.key}` } })).text(),
      /monolith_rejected_total\{[^}]*code="insufficient_quota"[^}]*\} [1-9]/,
    );
    await put(`/organizations/${organization.id}/budget`, { amount: null, stops: false });
    await put(`${budgets}/${id}`, { amount: null });
    t.ok(
      await eventually(
        async () => (await asked(secret, '/v1/chat/completions', chat)).every(({ status }) => status === 200),
        5_000,
      ),
      'a removed budget stops nothing',
    );
  },
);

t.test('suspending an organization ends its streams on every HTTP worker', async (t) => {
  const { secret } = await owner.post<CreatedApiKey>(LIST, { name: 'k' });
  const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: secret, maxRetries: 0 });
  const streams = await Promise.all(
    Array.from({ length: 6 }, () =>
      openai.chat.completions.create({
        model,
        messages: [{ role: 'user', content: 'L: story' }],
        max_tokens: 15_000,
        stream: true,
      }),
    ),
  );
  const ends = streams.map(async (stream): Promise<unknown> => {
    try {
      for await (const _ of stream) {
        /* read the stream to its end */
      }
      return 'the stream ended without an error';
    } catch (error) {
      return (error as { code?: string }).code;
    }
  });
  await owner.patch(`/operator/organizations/${organization.id}`, { status: 'suspended' });
  t.same(
    await Promise.all(ends),
    ends.map(() => 'organization_suspended'),
  );
  t.ok((await asked(secret, '/v1/models')).every(({ code }) => code === 'organization_suspended'));
});
