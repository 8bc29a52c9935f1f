// Tests that the usage shown on the dashboard equals the sum of the `usage` fields in all responses: complete and
// streamed, in the three formats, in the background, over a WebSocket and cancelled (check 5 of the models and accounts
// contract). Uses the official clients.
import { once } from 'node:events';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t from 'tap';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { LimitsObject } from '../../src/shared/wire/limits.js';
import type { UsagePage, UsageRowObject } from '../../src/shared/wire/usage.js';
import { dashboardClient } from '../support/dashboard-client.js';
import { openOwned } from '../support/owned-server.js';
import { startScripted } from '../support/script-model.js';
import { Connection } from '../support/web-socket.js';
import { eventually } from './monolith.js';
import { dataFolder, inside } from './stored-server.js';
import type { FinishedUsage } from '../../src/shared/usage-sink.js';

const folder = dataFolder();
const settings = { env: { MONOLITH_DATA_DIR: folder.path }, args: ['--engine-max-sequences', '4'] };
const { server, owner, organization, close } = await openOwned(settings);
t.teardown(async () => {
  await close();
  folder.remove();
});
const key = await owner.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, { name: 'test' });
const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: key.secret, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: server.url, apiKey: key.secret, maxRetries: 0 });

interface Sum {
  requests: number;
  input: number;
  cached: number;
  output: number;
  reasoning: number;
}
const expected = new Map<string, Sum>();

function count(endpoint: string, input: number, cached: number, output: number, reasoning: number): void {
  const sum = expected.get(endpoint) ?? { requests: 0, input: 0, cached: 0, output: 0, reasoning: 0 };
  expected.set(endpoint, {
    requests: sum.requests + 1,
    input: sum.input + input,
    cached: sum.cached + cached,
    output: sum.output + output,
    reasoning: sum.reasoning + reasoning,
  });
}
const chatUsage = (usage: OpenAI.CompletionUsage | undefined | null): void =>
  count(
    '/v1/chat/completions',
    usage!.prompt_tokens,
    usage!.prompt_tokens_details?.cached_tokens ?? 0,
    usage!.completion_tokens,
    usage!.completion_tokens_details?.reasoning_tokens ?? 0,
  );
const messagesUsage = (usage: Anthropic.Usage): void =>
  count(
    '/v1/messages',
    usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0),
    usage.cache_read_input_tokens ?? 0,
    usage.output_tokens,
    -1e9,
  );
const responsesUsage = (usage: OpenAI.Responses.ResponseUsage | undefined | null, endpoint = '/v1/responses'): void =>
  count(
    endpoint,
    usage!.input_tokens,
    usage!.input_tokens_details.cached_tokens,
    usage!.output_tokens,
    usage!.output_tokens_details.reasoning_tokens,
  );

const rows = async (query: string): Promise<UsageRowObject[]> =>
  (await owner.get<UsagePage>(`/organizations/${organization.id}/usage?bucket=day&${query}`)).data;
/** Adds up the rows for several days, because the test may run past midnight. */
const total = async (model: string, endpoint: string): Promise<UsageRowObject | undefined> => {
  const found = (await rows(`group_by=endpoint&models=${model}`)).filter((row) => row.endpoint === endpoint);
  return found.reduce<UsageRowObject | undefined>((sum, row) => {
    if (sum === undefined) return row;
    const added = { ...sum };
    for (const field of [
      'requests',
      'errors',
      'rate_limited',
      'input_tokens',
      'cached_tokens',
      'output_tokens',
      'reasoning_tokens',
      'images',
    ] as const)
      added[field] += row[field];
    return added;
  }, undefined);
};

const model = 'hal-1.0';
const long = 'and so on and so forth '.repeat(20);

t.test('usage on the dashboard equals the sum of the usage fields of all responses', async (t) => {
  const chat = { model, messages: [{ role: 'user' as const, content: `H: ${long}` }] };
  chatUsage((await openai.chat.completions.create(chat)).usage);
  chatUsage((await openai.chat.completions.create({ ...chat, n: 3 })).usage);
  for await (const part of await openai.chat.completions.create({
    ...chat,
    stream: true,
    stream_options: { include_usage: true },
  })) {
    if (part.usage) chatUsage(part.usage);
  }
  const message = {
    model,
    max_tokens: 2_000,
    messages: [{ role: 'user' as const, content: `H: ${long}` }],
    thinking: { type: 'enabled' as const, budget_tokens: 1_024 },
  };
  messagesUsage((await anthropic.messages.create(message)).usage);
  messagesUsage((await anthropic.messages.stream(message).finalMessage()).usage);
  await anthropic.messages.countTokens({ model, messages: message.messages });

  const asked = { model, input: `H: ${long}`, reasoning: { effort: 'medium' as const } };
  responsesUsage((await openai.responses.create(asked)).usage);
  for await (const event of await openai.responses.create({ ...asked, stream: true }))
    if (event.type === 'response.completed') responsesUsage(event.response.usage);
  const background = await openai.responses.create({ ...asked, background: true });
  t.ok(await eventually(async () => (await openai.responses.retrieve(background.id)).status === 'completed'));
  responsesUsage((await openai.responses.retrieve(background.id)).usage);

  const socket = await Connection.open({ port: server.port, key: key.secret });
  for (let turn = 0; turn < 2; turn++) {
    socket.send({ input: `H: ${long}`, reasoning: { effort: 'low' } });
    for (;;) {
      const event = (await socket.next()) as { type: string; response?: OpenAI.Responses.Response };
      if (event.type === 'error') throw new Error(JSON.stringify(event));
      if (event.type !== 'response.completed') continue;
      responsesUsage(event.response!.usage);
      break;
    }
  }
  socket.socket.close();

  const compacted = await openai.responses.compact({
    model: model as never,
    input: [{ role: 'user', content: `A: ${long}` }],
  });
  responsesUsage(compacted.usage, '/v1/responses/compact');

  // The request is cancelled while it is running. The tokens generated before the cancellation count, and the response
  // reports their number.
  const endless = await openai.responses.create({
    model,
    input: 'R: tell me',
    background: true,
    max_output_tokens: 6_000,
    reasoning: { effort: 'max' },
  });
  for await (const { type } of await openai.responses.retrieve(endless.id, { stream: true }))
    if (/reasoning.*\.delta$/.test(type)) break;
  const cancelled = await openai.responses.cancel(endless.id);
  t.equal(cancelled.status, 'cancelled');
  t.ok(cancelled.usage!.output_tokens > 0, 'the response had generated tokens');
  t.ok(cancelled.usage!.output_tokens_details.reasoning_tokens > 0, 'some of the tokens were reasoning');
  responsesUsage(cancelled.usage);

  for (const [endpoint, { requests, input, cached, output, reasoning }] of expected) {
    t.ok(
      await eventually(async () => (await total(model, endpoint))?.requests === requests),
      `${requests} requests were recorded for ${endpoint}`,
    );
    const row = await total(model, endpoint);
    t.match(
      row,
      {
        requests,
        errors: 0,
        rate_limited: 0,
        input_tokens: input,
        cached_tokens: cached,
        output_tokens: output,
        images: 0,
      },
      endpoint,
    );
    if (reasoning >= 0) t.equal(row!.reasoning_tokens, reasoning);
    else t.ok(row!.reasoning_tokens > 0, 'the messages format does not report reasoning tokens separately');
  }
  const { month } = await owner.get<LimitsObject>(`/organizations/${organization.id}/limits`);
  const all = [...expected.values()].reduce((sum, one) => sum + one.input + one.output, 0);
  t.equal(month.tokens, all, 'the month total includes all of them');
});

t.test('an aborted stream is charged for the tokens that were generated', async (t) => {
  const controller = new AbortController();
  const stream = await openai.chat.completions.create(
    { model: 'clarke-1.0', messages: [{ role: 'user', content: 'L: go' }], max_tokens: 8_000, stream: true },
    { signal: controller.signal },
  );
  let seen = 0;
  for await (const part of stream) {
    if (part.choices[0]?.delta.content) seen++;
    if (seen === 20) break;
  }
  controller.abort();
  t.ok(await eventually(async () => (await total('clarke-1.0', '/v1/chat/completions')) !== undefined));
  const row = (await total('clarke-1.0', '/v1/chat/completions'))!;
  t.equal(row.requests, 1);
  t.ok(row.output_tokens >= 20 && row.output_tokens < 8_000, `${row.output_tokens} tokens`);
});

t.test('refused requests count as errors or rate_limited, not as requests', async (t) => {
  const ask = (body: object, path = '/v1/chat/completions') =>
    fetch(`${server.url}${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { authorization: `Bearer ${key.secret}`, 'content-type': 'application/json' },
    });
  const messages = [{ role: 'user', content: 'A: x' }];
  t.equal((await ask({ model: 'tycho-1.0', messages: [] })).status, 400);
  t.equal((await ask({ model: 'tycho-1.0', messages, temperature: 9 })).status, 422);
  t.equal((await ask({ model: 'tycho-1.0', messages: [{ role: 'user', content: 'x'.repeat(20_000) }] })).status, 400);
  await owner.patch(`/operator/organizations/${organization.id}`, { limits: { 'tycho-1.0': { rpm: 1 } } });
  t.equal((await ask({ model: 'tycho-1.0', messages })).status, 200);
  t.equal((await ask({ model: 'tycho-1.0', messages })).status, 429);
  t.equal((await ask({ model: 'tycho-1.0', messages })).status, 429);
  t.equal(
    (await fetch(`${server.url}/v1/models/nothing`, { headers: { authorization: `Bearer ${key.secret}` } })).status,
    404,
  );
  t.ok(await eventually(async () => (await total('tycho-1.0', '/v1/chat/completions'))?.rate_limited === 2));
  t.match(
    await total('tycho-1.0', '/v1/chat/completions'),
    { requests: 1, errors: 2, rate_limited: 2 },
    'errors with a known model are counted for that model',
  );
  const whole = (await rows('group_by=endpoint')).filter((row) => row.endpoint === '/v1/chat/completions');
  t.ok(whole.reduce((sum, row) => sum + row.errors, 0) === 3, 'an error for an unknown model is counted too');
  await owner.patch(`/operator/organizations/${organization.id}`, { limits: {} });
});

t.test('requests over the monthly token cap get 429 insufficient_quota', async (t) => {
  const { month } = await owner.get<LimitsObject>(`/organizations/${organization.id}/limits`);
  await owner.patch(`/operator/organizations/${organization.id}`, { monthly_token_cap: month.tokens });
  const refused = (await openai.chat.completions
    .create({ model, messages: [{ role: 'user', content: 'A: x' }] })
    .catch((error: unknown) => error)) as { status: number; code: string; headers: Headers };
  t.match(refused, { status: 429, code: 'insufficient_quota' });
  t.equal(refused.headers.get('x-should-retry'), 'false');
  t.equal(refused.headers.get('retry-after'), '60');
  t.ok(refused.headers.get('x-ratelimit-limit-requests'));
  await owner.patch(`/operator/organizations/${organization.id}`, { monthly_token_cap: month.tokens + 1 });
  t.equal(
    (await openai.chat.completions.create({ model, messages: [{ role: 'user', content: 'A: x' }] })).object,
    'chat.completion',
    'a request may start while at least one token is left',
  );
  t.match(
    await openai.chat.completions
      .create({ model, messages: [{ role: 'user', content: 'A: x' }] })
      .catch((error: unknown) => error),
    { code: 'insufficient_quota' },
    'the cap applies immediately, before usage is written',
  );
});

t.test('a usage row has the fields that the contract requires', async (t) => {
  await inside(folder.path, async (store) => {
    const all = [...store.table<FinishedUsage>('usage-rows').range()].map(({ value }) => value);
    t.ok(all.length > 10);
    const first = all[0]!;
    t.match(first, {
      requestId: /^req_/,
      organizationId: organization.id,
      keyId: key.id,
      model,
      endpoint: '/v1/chat/completions',
      stream: false,
      status: 'completed',
      finishReason: 'end_of_turn',
      errorCode: null,
    });
    t.ok(
      first.receivedAt <= first.startedAt! + 1 &&
        first.startedAt! <= first.firstTokenAt! &&
        first.firstTokenAt! <= first.endedAt &&
        Math.abs(first.endedAt - Date.now()) < 120_000,
    );
    t.ok(all.some(({ stream }) => stream) && all.some(({ status }) => status === 'cancelled'));
  });
});

t.test('usage that was visible before SIGKILL is still there after the restart', async (t) => {
  t.ok(
    await eventually(async () => {
      const { month } = await owner.get<LimitsObject>(`/organizations/${organization.id}/limits`);
      return month.tokens >= month.cap!;
    }),
    'usage is written within a quarter of a second',
  );
  const before = await rows('group_by=model,endpoint');
  const { month } = await owner.get<LimitsObject>(`/organizations/${organization.id}/limits`);
  server.process.kill('SIGKILL');
  await once(server.process, 'exit');
  const again = await startScripted(settings);
  t.teardown(() => again.stop());
  const client = dashboardClient(again.url);
  client.cookie = owner.cookie;
  t.same(
    (await client.get<UsagePage>(`/organizations/${organization.id}/usage?bucket=day&group_by=model,endpoint`)).data,
    before,
  );
  t.match(await client.get<LimitsObject>(`/organizations/${organization.id}/limits`), { month });
  const later = new OpenAI({ baseURL: `${again.url}/v1`, apiKey: key.secret, maxRetries: 0 });
  t.match(
    await later.chat.completions
      .create({ model, messages: [{ role: 'user', content: 'A: x' }] })
      .catch((error: unknown) => error),
    { code: 'insufficient_quota' },
    'the cap still holds',
  );
});
