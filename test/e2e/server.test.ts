// Tests the health, metrics and model endpoints and the data directory of a server that runs in this process with the
// embedded model.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import t from 'tap';
import { configWith } from '../../src/config/load.js';
import { startServer } from '../../src/server/server.js';
import { createTelemetry } from '../../src/telemetry/telemetry.js';
import { embeddedModel } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const dataDir = mkdtempSync(join(tmpdir(), 'monolith-server-'));
const quiet = (): { telemetry: ReturnType<typeof createTelemetry> } => ({
  telemetry: createTelemetry({ format: 'json', level: 'silent' }),
});
const config = configWith({ port: 0, data_dir: dataDir });
const server = await startServer(config, quiet());
const key = server.createdKey as string;
t.teardown(async () => {
  await server.close();
  rmSync(dataDir, { recursive: true, force: true });
});

const get = (path: string, headers: Record<string, string> = { authorization: `Bearer ${key}` }): Promise<Response> =>
  fetch(server.url + path, { headers });

t.test('health, readiness and metrics endpoints report the state of the server', async (t) => {
  t.match(await (await get('/livez', {})).json(), { status: 'ok', pid: process.pid });
  t.same(await (await get('/healthz', {})).json(), { status: 'ok' });
  const ready = await get('/readyz');
  t.equal(ready.status, 200);
  t.match(await ready.json(), {
    status: 'ready',
    reason: null,
    draining: false,
    models: [{ name: 'hal-1.0', state: 'ready', running: 0 }, {}, {}, { state: 'idle' }],
  });
  t.equal((await get('/metrics', {})).status, 401);
  const metrics = await get('/metrics');
  t.match(metrics.headers.get('content-type'), /^text\/plain; version=0\.0\.4/);
  const text = await metrics.text();
  for (const name of [
    'queue_seconds',
    'time_to_first_token_seconds',
    'inter_token_seconds',
    'end_to_end_seconds',
    'sequences_running',
    'requests_waiting',
    'kv_pages',
    'event_loop_lag_seconds',
  ]) {
    t.match(text, new RegExp(`^# TYPE monolith_${name} `, 'm'), name);
  }
});

t.test('GET /v1/models returns models in the OpenAI format', async (t) => {
  const list = (await (await get('/v1/models')).json()) as { data: Record<string, unknown>[] };
  t.same(
    list.data.map((model) => model['id']),
    ['hal-1.0', 'clarke-1.0', 'tycho-1.0', 'discovery-embed-1.0'],
  );
  t.match(list.data[0], {
    object: 'model',
    owned_by: 'organization',
    shutdown_date: null,
    lifecycle: 'active',
    default_reasoning_effort: 'none',
  });
  t.equal(list.data[0]?.['context_window'], list.data[0]?.['max_model_len']);
  t.equal(list.data[0]?.['context_window'], list.data[0]?.['context_length']);
  t.same(await (await get('/v1/models/hal-1.0')).json(), list.data[0]);
  const missing = await get('/v1/models/nothing');
  t.equal(missing.status, 404);
  t.match(await missing.json(), { error: { code: 'model_not_found', param: 'model' } });
  const removed = await fetch(`${server.url}/v1/models/hal-1.0`, {
    method: 'DELETE',
    headers: { authorization: `Bearer ${key}` },
  });
  t.match(await removed.json(), { error: { code: 'method_not_allowed' } });
});

t.test('GET /v1/models returns models in the Anthropic format to the Anthropic client', async (t) => {
  const client = new Anthropic({ baseURL: server.url, apiKey: key, maxRetries: 0 });
  const ids: string[] = [];
  for await (const model of client.models.list({ limit: 2 })) ids.push(model.id);
  t.same(ids, ['hal-1.0', 'clarke-1.0', 'tycho-1.0', 'discovery-embed-1.0'], 'paging ends after the last model');
  t.match(await client.models.retrieve('tycho-1.0'), { type: 'model', id: 'tycho-1.0', display_name: 'Tycho 1.0' });
  const before = await (await get('/v1/models?before_id=tycho-1.0&limit=1', { 'x-api-key': key })).json();
  t.match(before, { data: [{ id: 'clarke-1.0' }], has_more: true });
  for (const [limit, status, code] of [
    ['0', 422, 'value_out_of_range'],
    ['-5', 422, 'value_out_of_range'],
    ['1001', 422, 'value_out_of_range'],
    ['x', 400, 'invalid_query_parameter'],
    ['1.5', 400, 'invalid_query_parameter'],
    ['', 400, 'invalid_query_parameter'],
  ] as const) {
    const bad = await get(`/v1/models?limit=${limit}`, { 'x-api-key': key });
    t.equal(bad.status, status, limit);
    t.match(await bad.json(), { type: 'error', error: { code, param: 'limit', details: { error_code: code } } });
  }
  t.equal((await get('/v1/models?limit=1000', { 'x-api-key': key })).status, 200);
});

t.test('a key limited to one model can list and use only that model', async (t) => {
  const { secret } = await server.accounts.createKey({ name: 'small', models: ['tycho-1.0'] });
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' };
  const list = (await (await get('/v1/models', headers)).json()) as { data: { id: string }[] };
  t.same(
    list.data.map(({ id }) => id),
    ['tycho-1.0'],
  );
  t.match(await (await get('/v1/models/hal-1.0', headers)).json(), {
    error: { code: 'model_not_allowed', type: 'permission_error' },
  });
  const chat = await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ model: 'hal-1.0', messages: [{ role: 'user', content: 'x' }] }),
  });
  t.equal(chat.status, 403);
});

t.test('a response with fewer tokens than reserved refunds the difference to the rate limit', async (t) => {
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'tycho-1.0',
      max_tokens: 900,
      messages: [{ role: 'user', content: 'Is this review positive or negative? "Good."' }],
      stop: ['e', 'a', 'i', 'o'],
    }),
  });
  const { usage } = (await response.json()) as { usage: { prompt_tokens: number; completion_tokens: number } };
  const reserved = 999_999 - Number(response.headers.get('x-ratelimit-remaining-tokens'));
  // The bucket refills at 17 tokens per millisecond.
  t.ok(reserved <= usage.prompt_tokens + 900 && reserved > 600, `${reserved} tokens were reserved`);
  const after = await fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tycho-1.0', max_tokens: 1, messages: [{ role: 'user', content: 'x' }] }),
  });
  await after.text();
  t.ok(
    999_999 - Number(after.headers.get('x-ratelimit-remaining-tokens')) <
      usage.prompt_tokens + usage.completion_tokens + 100,
    'the unused tokens were refunded',
  );
});

t.test(
  'a data directory in use, a port in use and an invalid model file give clear errors and leave no state behind',
  async (t) => {
    await t.rejects(startServer(config, quiet()), {
      name: 'StorageError',
      message: /Another server is using the data directory .*process/,
    });
    const other = mkdtempSync(join(tmpdir(), 'monolith-server-'));
    t.teardown(() => rmSync(other, { recursive: true, force: true }));
    await t.rejects(startServer(configWith({ port: server.port, data_dir: other }), quiet()), {
      name: 'StartError',
      message: /Cannot listen on 127\.0\.0\.1 port/,
    });
    await t.rejects(
      startServer(configWith({ port: 0, data_dir: other, model: { x: import.meta.filename } }), quiet()),
      { name: 'StartError', message: /GGUF/ },
    );
    await t.rejects(
      startServer(configWith({ port: 0, data_dir: other, oidc: { issuer: 'https://accounts.example.com' } }), quiet()),
      { name: 'StartError', message: /oidc\.client_id/ },
      'a module fails after others have been opened',
    );
    const last = await startServer(configWith({ port: 0, data_dir: other }), quiet());
    t.match(last.createdKey, /^sk-/, 'the failed starts created no key');
    await last.close();
    const again = await startServer(configWith({ port: 0, data_dir: other }), quiet());
    t.equal(again.createdKey, null, 'the key is shown only at the first start');
    await again.close();
  },
);

t.test('a model file that fails to load does not affect the other models', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-server-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const lines: string[] = [];
  const partial = await startServer(
    configWith({ port: 0, data_dir: folder, model: { bad: import.meta.filename, good: embeddedModel } }),
    { telemetry: createTelemetry({ format: 'json', level: 'error', write: (line) => lines.push(line) }) },
  );
  t.teardown(() => partial.close());
  t.same(partial.models, ['good']);
  t.match(partial.failed, [{ name: 'bad', reason: import.meta.filename }]);
  t.equal(lines.length, 1);
  t.match(JSON.parse(lines[0] as string), { level: 'error', model: 'bad', reason: import.meta.filename });
  const stranger = await fetch(`${partial.url}/readyz`);
  t.equal(stranger.status, 503);
  const seen = await stranger.text();
  t.match(JSON.parse(seen), {
    status: 'not_ready',
    models: [
      { name: 'bad', state: 'failed' },
      { name: 'good', state: 'ready' },
    ],
  });
  t.notMatch(seen, /error|reason|\//, 'an unauthenticated client does not see file paths');
  const ready = await fetch(`${partial.url}/readyz`, {
    headers: { authorization: `Bearer ${partial.createdKey as string}` },
  });
  t.equal(ready.status, 503);
  t.match(await ready.json(), {
    reason: 'bad is failed',
    models: [
      { name: 'bad', state: 'failed', error: import.meta.filename },
      { name: 'good', state: 'ready', error: null },
    ],
  });
  const ask = (model: string): Promise<Response> =>
    fetch(`${partial.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${partial.createdKey as string}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, max_tokens: 1, messages: [{ role: 'user', content: 'x' }] }),
    });
  t.equal((await ask('good')).status, 200);
  const refused = await ask('bad');
  t.equal(refused.status, 503);
  t.equal(refused.headers.get('retry-after'), '10');
  t.match(await refused.json(), { error: { code: 'model_unavailable' } });
});

t.test('a draining server is not ready and refuses new requests with 503', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-server-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const draining = await startServer(configWith({ port: 0, data_dir: folder, engine: { drain_ms: 300 } }), quiet());
  const headers = { authorization: `Bearer ${draining.createdKey as string}`, 'content-type': 'application/json' };
  const body = (more: object): RequestInit => ({
    method: 'POST',
    headers,
    body: JSON.stringify({ model: 'tycho-1.0', messages: [{ role: 'user', content: 'x' }], ...more }),
  });
  const stream = await fetch(
    `${draining.url}/v1/chat/completions`,
    body({ stream: true, max_tokens: 1000, n: 8, ignore_eos: true }),
  );
  const done = draining.drain();
  const ready = await fetch(`${draining.url}/readyz`);
  t.equal(ready.status, 503);
  t.match(await ready.json(), { status: 'not_ready', draining: true });
  const refused = await fetch(`${draining.url}/v1/chat/completions`, body({}));
  t.equal(refused.status, 503);
  t.equal(refused.headers.get('retry-after'), '10');
  t.match(await refused.json(), { error: { code: 'shutting_down', type: 'service_unavailable' } });
  const text = await stream.text();
  t.match(text, /"finish_reason":"length"/);
  t.ok(text.endsWith('data: [DONE]\n\n'), 'the running stream ended completely');
  await done;
  await t.rejects(fetch(`${draining.url}/livez`), 'the server is closed');
});
