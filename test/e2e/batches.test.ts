// Tests batches with the official clients of OpenAI and Anthropic: input files and results, invalid input,
// cancellation, expiry, revoked keys, and a restart. Runs with LMDB and with PostgreSQL.
import Anthropic from '@anthropic-ai/sdk';
import OpenAI, { toFile } from 'openai';
import OpenAI7 from 'openai-7';
import t, { type Test } from 'tap';
import { publishedAnswers } from '../../src/protocol/openapi/document.js';
import { onBothStores } from '../support/both-stores.js';
import { dashboardClient } from '../support/dashboard-client.js';
import { said, startScripted } from '../support/script-model.js';
import { eventually, type Monolith } from './monolith.js';

t.setTimeout(600_000); // the machine may be busy

const model = 'clarke-1.0';
const WAIT_MS = 120_000;

interface Line {
  custom_id: string;
  method?: string;
  url?: string;
  body?: unknown;
}
const chat = (content: string, more: object = {}): object => ({
  model,
  messages: [{ role: 'user', content }],
  reasoning_effort: 'none',
  ...more,
});
const line = (custom_id: string, body: unknown, url = '/v1/chat/completions'): Line => ({
  custom_id,
  method: 'POST',
  url,
  body,
});
const texts = (lines: readonly unknown[]): string =>
  lines.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))).join('\n');

function clientsOf({ url, key }: { url: string; key: string }): { openai: OpenAI; anthropic: Anthropic } {
  return {
    openai: new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 }),
    anthropic: new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 }),
  };
}

async function inputOf(openai: OpenAI, lines: readonly unknown[], purpose: 'batch' | 'user_data' = 'batch') {
  return openai.files.create({ file: await toFile(Buffer.from(texts(lines)), 'input.jsonl'), purpose });
}

async function begin(
  openai: OpenAI,
  lines: readonly unknown[],
  endpoint: OpenAI.BatchCreateParams['endpoint'] = '/v1/chat/completions',
  more: Partial<OpenAI.BatchCreateParams> = {},
): Promise<OpenAI.Batch> {
  const { id: input_file_id } = await inputOf(openai, lines);
  return openai.batches.create({ input_file_id, endpoint, completion_window: '24h', ...more });
}

const OVER = new Set(['completed', 'failed', 'cancelled', 'expired']);
async function ended(openai: OpenAI, { id }: OpenAI.Batch): Promise<OpenAI.Batch> {
  let batch = await openai.batches.retrieve(id);
  await eventually(async () => {
    batch = await openai.batches.retrieve(id);
    return OVER.has(batch.status);
  }, WAIT_MS);
  return batch;
}

interface Output {
  id: string;
  custom_id: string;
  response: { status_code: number; request_id: string; body: never; headers?: Record<string, string> } | null;
  error: { code: string; message: string } | null;
}
async function outputs(openai: OpenAI, id: string | null | undefined): Promise<Map<string, Output>> {
  if (id == null) return new Map();
  const lines = (await (await openai.files.content(id)).text()).trimEnd().split('\n');
  return new Map(lines.map((text) => JSON.parse(text) as Output).map((one) => [one.custom_id, one]));
}

async function messagesEnded(anthropic: Anthropic, id: string): Promise<Anthropic.Messages.MessageBatch> {
  let batch = await anthropic.messages.batches.retrieve(id);
  await eventually(async () => {
    batch = await anthropic.messages.batches.retrieve(id);
    return batch.processing_status === 'ended';
  }, WAIT_MS);
  return batch;
}
const message = (custom_id: string, content: string, more: object = {}) => ({
  custom_id,
  params: { model, max_tokens: 100, messages: [{ role: 'user' as const, content }], ...more },
});
async function resultsOf(anthropic: Anthropic, id: string) {
  const results = new Map<string, Anthropic.Messages.MessageBatchResult>();
  for await (const one of await anthropic.messages.batches.results(id)) results.set(one.custom_id, one.result);
  return results;
}

onBothStores(async (t, store) => {
  const server = await startScripted({ args: argsOf(store) });
  t.teardown(() => server.stop());
  const { openai, anthropic } = clientsOf(server);
  await openaiTests(t, server, openai);
  await messagesTests(t, anthropic);
  await sharedTests(t, server);
});

function argsOf(store: { database?: { url: string }; redis?: { url: string } }): string[] {
  return [
    '--accounts-signup',
    'open',
    ...(store.database === undefined ? [] : ['--database', store.database.url]),
    ...(store.redis === undefined ? [] : ['--redis', store.redis.url]),
  ];
}

async function openaiTests(t: Test, server: Monolith, openai: OpenAI): Promise<void> {
  for (const [version, client] of [
    ['6', openai],
    ['7', new OpenAI7({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 }) as unknown as OpenAI],
  ] as const)
    await t.test(`runs a batch of chat completions with client version ${version}`, async (t) => {
      const created = await begin(
        client,
        [
          line('one', chat('A: capital?')),
          line('two', chat('E: text', { mood: 'good' })),
          line('three', chat('A: x', { temperature: 9 })),
        ],
        '/v1/chat/completions',
        { metadata: { a: 'b' } },
      );
      t.ok(publishedAnswers.Batch.safeParse(created).success);
      t.match(created, { object: 'batch', status: 'validating', metadata: { a: 'b' }, completion_window: '24h' });
      const batch = await ended(client, created);
      t.ok(publishedAnswers.Batch.safeParse(batch).success);
      t.match(batch, { status: 'completed', model, request_counts: { total: 3, completed: 2, failed: 1 } });
      t.ok(batch.usage!.output_tokens > 0);
      const output = await outputs(client, batch.output_file_id);
      t.same([...output.keys()], ['one', 'two'], 'in the order of the input');
      t.match(output.get('one'), {
        response: { status_code: 200, body: { choices: [{ message: { content: said('A').content } }] } },
        error: null,
      });
      t.same(output.get('two')?.response?.headers, { 'x-ignored-parameters': 'mood' });
      const errors = await outputs(client, batch.error_file_id);
      t.match(errors.get('three'), {
        response: { status_code: 422, body: { error: { param: 'temperature' } } },
        error: null,
      });
      const file = await client.files.retrieve(batch.output_file_id!);
      t.match(file, { purpose: 'batch_output', filename: `${batch.id}_output.jsonl` });
    });

  await t.test('runs batches of responses and completions', async (t) => {
    const responses = await begin(
      openai,
      [line('r', { model, input: 'A: x', reasoning: { effort: 'none' } }, '/v1/responses')],
      '/v1/responses',
    );
    const completions = await begin(
      openai,
      [line('c', { model, prompt: 'A: x', max_tokens: 5 }, '/v1/completions')],
      '/v1/completions',
    );
    const [one, two] = [await ended(openai, responses), await ended(openai, completions)];
    t.match((await outputs(openai, one.output_file_id)).get('r'), {
      response: { status_code: 200, body: { object: 'response', status: 'completed' } },
    });
    t.match((await outputs(openai, two.output_file_id)).get('c'), {
      response: { status_code: 200, body: { object: 'text_completion' } },
    });
  });

  await t.test('reports every problem of an input file with its line number', async (t) => {
    const batch = await ended(
      openai,
      await begin(openai, [
        line('a', chat('A: x')),
        '{"custom_id": "b", nonsense}',
        line('a', chat('A: x')),
        '',
        line('d', chat('A: x'), '/v1/responses'),
        line('e', chat('A: x', { model: 'hal-1.0' })),
        { ...line('f', chat('A: x')), method: 'GET' },
        { custom_id: 'g', method: 'POST', url: '/v1/chat/completions' },
        line('h\0', chat('A: x')),
      ]),
    );
    t.equal(batch.status, 'failed');
    t.equal(batch.output_file_id, null);
    t.same(
      batch.errors?.data?.map(({ code, line, param }) => [line, code, param]),
      [
        [2, 'invalid_json_line', null],
        [3, 'duplicate_custom_id', 'custom_id'],
        [5, 'invalid_url', 'url'],
        [6, 'mismatched_model', 'body.model'],
        [7, 'invalid_method', 'method'],
        [8, 'missing_required_parameter', 'body'],
        [9, 'invalid_custom_id', 'custom_id'],
      ],
    );
  });

  await t.test('reports empty input files and unknown models', async (t) => {
    const empty = await ended(openai, await begin(openai, ['', '\n']));
    t.match(empty.errors?.data, [{ code: 'empty_file' }]);
    const unknown = await ended(openai, await begin(openai, [line('a', chat('A: x', { model: 'nobody' }))]));
    t.match(unknown.errors?.data, [{ code: 'model_not_found', line: 1 }]);
  });

  await t.test('a request with stream: true fails with unsupported_value', async (t) => {
    const batch = await ended(openai, await begin(openai, [line('s', chat('A: x', { stream: true }))]));
    t.match(batch, { status: 'completed', output_file_id: null, request_counts: { failed: 1 } });
    t.match((await outputs(openai, batch.error_file_id)).get('s'), {
      response: { status_code: 422, body: { error: { code: 'unsupported_value', param: 'stream' } } },
    });
  });

  await t.test('invalid requests are refused by name', async (t) => {
    const file = await inputOf(openai, [line('a', chat('A: x'))]);
    const other = await inputOf(openai, ['text'], 'user_data');
    const create = (more: object): Promise<unknown> =>
      openai.batches.create({
        input_file_id: file.id,
        endpoint: '/v1/chat/completions',
        completion_window: '24h',
        ...more,
      });
    await t.rejects(create({ input_file_id: 'file-x' }), { status: 404, code: 'file_not_found' });
    await t.rejects(create({ input_file_id: other.id }), { status: 422, code: 'invalid_value' });
    await t.rejects(create({ endpoint: '/v1/moderations' }), { message: /endpoint must be/ });
    await t.rejects(create({ completion_window: '1h' }), { message: /completion_window must be/ });
    await t.rejects(create({ output_expires_after: { anchor: 'created_at', seconds: 1 } }), {
      message: /output_expires_after\.seconds must be/,
    });
    await t.rejects(openai.batches.retrieve('batch_x'), { status: 404, code: 'batch_not_found' });
    await t.rejects(openai.batches.cancel('batch_x'), { status: 404, code: 'batch_not_found' });
  });

  await t.test('output files expire at the time that the client sets', async (t) => {
    const batch = await ended(
      openai,
      await begin(openai, [line('a', chat('A: x'))], '/v1/chat/completions', {
        output_expires_after: { anchor: 'created_at', seconds: 3_600 },
      }),
    );
    const file = await openai.files.retrieve(batch.output_file_id!);
    t.ok(Math.abs(file.expires_at! - file.created_at - 3_600) < 60, `${file.expires_at} ${file.created_at}`);
  });

  await t.test('a batch still runs after its input file is deleted', async (t) => {
    const { id } = await inputOf(openai, [line('a', chat('A: x'))]);
    const batch = await openai.batches.create({
      input_file_id: id,
      endpoint: '/v1/chat/completions',
      completion_window: '24h',
    });
    await openai.files.delete(id);
    t.match(await ended(openai, batch), { status: 'completed', request_counts: { completed: 1 } });
    await t.rejects(openai.files.content(id), { status: 404, code: 'file_not_found' });
  });

  await t.test('a cancelled batch returns the results so far, and lists the requests that did not run', async (t) => {
    const created = await begin(openai, [
      line('quick', chat('A: x')),
      ...Array.from({ length: 30 }, (_, at) => line(`endless-${at}`, chat('L: story', { max_tokens: 16_000 }))),
    ]);
    t.ok(
      await eventually(async () => ((await openai.batches.retrieve(created.id)).request_counts?.completed ?? 0) > 0),
    );
    const cancelling = await openai.batches.cancel(created.id);
    t.ok(['cancelling', 'cancelled'].includes(cancelling.status), cancelling.status);
    const batch = await ended(openai, created);
    t.equal(batch.status, 'cancelled');
    t.ok(batch.cancelled_at! >= batch.cancelling_at!);
    const output = await outputs(openai, batch.output_file_id);
    const errors = await outputs(openai, batch.error_file_id);
    t.ok(output.has('quick'));
    t.equal(output.size + errors.size, 31, 'every request has one result');
    t.match(errors.get('endless-29'), { response: null, error: { code: 'batch_cancelled' } });
    await t.rejects(openai.batches.cancel(created.id), { status: 422, code: 'batch_not_cancellable' });
  });

  await t.test('batches are listed from the newest to the oldest', async (t) => {
    const ids: string[] = [];
    for await (const { id } of openai.batches.list({ limit: 3 })) ids.push(id);
    t.ok(ids.length > 5);
    t.same(ids, [...ids].sort().reverse());
    await t.rejects(openai.batches.list({ limit: 1_000 }), { status: 422, code: 'value_out_of_range' });
  });
}

async function messagesTests(t: Test, anthropic: Anthropic): Promise<void> {
  await t.test('runs a batch of messages', async (t) => {
    const created = await anthropic.messages.batches.create({
      requests: [message('one', 'A: capital?'), message('two', 'A: x', { temperature: 9 })],
    });
    t.ok(publishedAnswers.MessageBatch.safeParse(created).success);
    t.match(created, { type: 'message_batch', processing_status: 'in_progress', results_url: null });
    t.same(created.request_counts, { processing: 2, succeeded: 0, errored: 0, canceled: 0, expired: 0 });
    const batch = await messagesEnded(anthropic, created.id);
    t.ok(publishedAnswers.MessageBatch.safeParse(batch).success);
    t.same(batch.request_counts, { processing: 0, succeeded: 1, errored: 1, canceled: 0, expired: 0 });
    const results = await resultsOf(anthropic, created.id);
    t.match(results.get('one'), {
      type: 'succeeded',
      message: { type: 'message', role: 'assistant', content: [{ type: 'text', text: said('A').content }] },
    });
    t.match(results.get('two'), { type: 'errored', error: { type: 'error', error: { type: /./ } } });
    const listed: string[] = [];
    for await (const { id } of anthropic.messages.batches.list({ limit: 1 })) listed.push(id);
    t.ok(listed.includes(created.id));
    t.same(await anthropic.messages.batches.delete(created.id), { id: created.id, type: 'message_batch_deleted' });
    await t.rejects(anthropic.messages.batches.retrieve(created.id), { message: /No batch found/ });
  });

  await t.test('a cancelled batch of messages lists the requests that did not run', async (t) => {
    const { id } = await anthropic.messages.batches.create({
      requests: Array.from({ length: 20 }, (_, at) => message(`m${at}`, 'L: story', { max_tokens: 15_000 })),
    });
    await t.rejects(anthropic.messages.batches.delete(id), { message: /not finished/ });
    const cancelled = await anthropic.messages.batches.cancel(id);
    t.ok(cancelled.cancel_initiated_at !== null);
    const batch = await messagesEnded(anthropic, id);
    t.equal(batch.request_counts.canceled + batch.request_counts.succeeded, 20);
    const results = await resultsOf(anthropic, id);
    t.equal(results.size, 20);
    t.same(results.get('m19'), { type: 'canceled' });
  });

  await t.test('invalid requests are refused by name', async (t) => {
    const create = (requests: unknown): Promise<unknown> =>
      anthropic.messages.batches.create({ requests: requests as never });
    await t.rejects(create([]), { message: /requests must have at least one request/ });
    await t.rejects(create('x'), { message: /requests must be an array/ });
    await t.rejects(create([message('a b', 'A: x')]), { message: /requests\.0\.custom_id must be/ });
    await t.rejects(create([message('a', 'A: x'), message('a', 'A: x')]), {
      message: /requests\.1\.custom_id must be unique/,
    });
    await t.rejects(create([{ custom_id: 'a' }]), { message: /requests\.0\.params is required/ });
  });
}

async function sharedTests(t: Test, server: Monolith): Promise<void> {
  const owner = dashboardClient(server.url);
  const { organization } = await owner.signUp({ email: 'owner@example.com' });
  const keyOf = async (more: object = {}) =>
    owner.post<{ id: string; secret: string }>(`/organizations/${organization.id}/api-keys`, {
      name: 'batch',
      ...more,
    });

  await t.test('requests of a batch fail with api_key_revoked after its key is revoked', async (t) => {
    const key = await keyOf();
    const { openai } = clientsOf({ url: server.url, key: key.secret });
    const other = clientsOf({ url: server.url, key: (await keyOf()).secret }).openai;
    const created = await begin(
      openai,
      Array.from({ length: 40 }, (_, at) => line(`l${at}`, chat('L: story', { max_tokens: 400 }))),
    );
    t.ok(await eventually(async () => (await other.batches.retrieve(created.id)).status === 'in_progress'));
    await owner.delete(`/organizations/${organization.id}/api-keys/${key.id}`);
    const batch = await ended(other, created);
    t.equal(batch.request_counts?.total, 40);
    const errors = await outputs(other, batch.error_file_id);
    t.match(errors.get('l39'), { response: { status_code: 401, body: { error: { code: 'api_key_revoked' } } } });
  });

  await t.test('requests appear in usage, and in the request log with the ID of their batch', async (t) => {
    const { openai } = clientsOf({ url: server.url, key: (await keyOf()).secret });
    const batch = await ended(
      openai,
      await begin(openai, [line('a', chat('A: x')), line('b', chat('A: x', { n: -1 }))]),
    );
    t.ok(
      await eventually(async () => {
        const path = `/organizations/${organization.id}/requests`;
        const { data } = await owner.get<{ data: { id: string; method: string }[] }>(path);
        const logged = await Promise.all(
          data
            .filter(({ method }) => method === 'BATCH')
            .map(({ id }) => owner.get<{ parameters: { batch?: string } | null }>(`${path}/${id}`)),
        );
        return logged.filter(({ parameters }) => parameters?.batch === batch.id).length === 2;
      }),
    );
  });

  /** Waits until the request log has `count` requests of batches of a key, and returns their times in ms. */
  async function runsOf(keyId: string, count: number): Promise<{ from: number; to: number }[]> {
    let runs: { from: number; to: number }[] = [];
    await eventually(async () => {
      const { data } = await owner.get<{ data: { method: string; received_at: string; at: string }[] }>(
        `/organizations/${organization.id}/requests?api_key=${keyId}&outcome=completed&limit=100`,
      );
      runs = data
        .filter(({ method }) => method === 'BATCH')
        .map(({ received_at, at }) => ({ from: Date.parse(received_at), to: Date.parse(at) }));
      return runs.length === count;
    }, WAIT_MS);
    return runs.sort((a, b) => a.from - b.from);
  }
  const overlaps = (runs: readonly { from: number; to: number }[]): number =>
    runs.filter(({ from }, at) => at > 0 && from < runs[at - 1]!.to).length;

  await t.test('requests over the concurrency limit wait until they can run', async (t) => {
    const requests = 5;
    const lines = Array.from({ length: requests }, (_, at) => line(`l${at}`, chat('L: story', { max_tokens: 300 })));
    const watcher = clientsOf({ url: server.url, key: (await keyOf()).secret }).openai;
    const run = async (more: object): Promise<{ from: number; to: number }[]> => {
      const { id, secret } = await keyOf(more);
      const { openai } = clientsOf({ url: server.url, key: secret });
      t.match(await ended(watcher, await begin(openai, lines)), {
        status: 'completed',
        request_counts: { total: requests, completed: requests, failed: 0 },
      });
      return runsOf(id, requests);
    };
    t.ok(overlaps(await run({})) > 0, 'without the limit, requests run at the same time');
    const limited = await run({ limits: { [model]: { concurrency: 1 } } });
    t.equal(overlaps(limited), 0, JSON.stringify(limited));
  });

  await t.test('a key without the scope sees nothing', async (t) => {
    const { openai } = clientsOf({ url: server.url, key: (await keyOf({ scopes: ['inference'] })).secret });
    await t.rejects(openai.batches.list(), { status: 403, code: 'endpoint_not_allowed' });
  });

  await t.test('another organization neither sees nor changes batches and their files', async (t) => {
    const own = clientsOf({ url: server.url, key: (await keyOf()).secret });
    const stranger = dashboardClient(server.url);
    const { organization: other } = await stranger.signUp({ email: 'stranger@example.com' });
    const { secret } = await stranger.post<{ secret: string }>(`/organizations/${other.id}/api-keys`, { name: 'k' });
    const theirs = clientsOf({ url: server.url, key: secret });

    const batch = await begin(own.openai, [line('a', chat('A: x'))]);
    const messages = await own.anthropic.messages.batches.create({ requests: [message('m', 'A: x')] });
    const { output_file_id } = await ended(own.openai, batch);
    await messagesEnded(own.anthropic, messages.id);
    const unknown = { status: 404, code: 'batch_not_found' };
    await t.rejects(theirs.openai.batches.retrieve(batch.id), unknown);
    await t.rejects(theirs.openai.batches.cancel(batch.id), unknown);
    for (const fileId of [batch.input_file_id, output_file_id!]) {
      await t.rejects(theirs.openai.files.content(fileId), { status: 404, code: 'file_not_found' });
      await t.rejects(
        theirs.openai.batches.create({
          input_file_id: fileId,
          endpoint: '/v1/chat/completions',
          completion_window: '24h',
        }),
        { status: 404, code: 'file_not_found' },
      );
    }
    t.same((await theirs.openai.batches.list()).data, []);
    t.same((await theirs.openai.files.list()).data, []);
    const { batches } = theirs.anthropic.messages;
    t.same((await batches.list()).data, []);
    const calls: readonly (() => Promise<unknown>)[] = [
      () => batches.retrieve(messages.id),
      () => batches.results(messages.id),
      () => batches.cancel(messages.id),
      () => batches.delete(messages.id),
    ];
    for (const call of calls) await t.rejects(call(), { message: /No batch found/ });
    t.equal((await own.openai.batches.retrieve(batch.id)).status, 'completed');
    t.equal((await resultsOf(own.anthropic, messages.id)).size, 1, 'they are still there');
  });
}
