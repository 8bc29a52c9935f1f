// Tests the permissions of API keys through the official clients: models, scopes, expiry, rotation, and revocation from
// another process.

import { spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t from 'tap';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import { startScripted } from '../support/script-model.js';
import { Connection, handshakeStatus } from '../support/web-socket.js';
import { eventually, main } from './monolith.js';
import { dataFolder } from './stored-server.js';

const data = dataFolder();
const server = await startScripted({ env: { MONOLITH_DATA_DIR: data.path } });
t.teardown(async () => {
  await server.stop();
  data.remove();
});

const openai = (apiKey: string): OpenAI => new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 });
const anthropic = (apiKey: string): Anthropic => new Anthropic({ baseURL: server.url, apiKey, maxRetries: 0 });
const chat = (apiKey: string, model = 'tycho-1.0') =>
  openai(apiKey).chat.completions.create({ model, messages: [{ role: 'user', content: 'A: x' }] });
const message = (apiKey: string, model = 'tycho-1.0') =>
  anthropic(apiKey).messages.create({ model, max_tokens: 20, messages: [{ role: 'user', content: 'A: x' }] });

/** Returns the error message in the response body. The Anthropic client's own message contains the whole body. */
const messageOf = (error: unknown): string =>
  error instanceof Anthropic.APIError
    ? ((error.error as { error?: { message?: string } }).error?.message ?? '')
    : (error as Error).message;

/** Runs `monolith keys` while the server is running, as an operator would. */
function keys(...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, 'keys', ...args], {
    encoding: 'utf8',
    timeout: 30_000,
    env: { ...process.env, MONOLITH_DATA_DIR: data.path },
  });
  if (status !== 0) throw new Error(stderr);
  return stdout.trim();
}

/** Returns the status and error code of a failed call, or null if the call succeeds. */
async function code(call: Promise<unknown>): Promise<unknown> {
  try {
    await call;
    return null;
  } catch (error) {
    if (error instanceof OpenAI.APIError) return `${error.status} ${error.code ?? ''}`;
    if (error instanceof Anthropic.APIError)
      return `${error.status as number} ${(error.error as { error?: { code?: string } }).error?.code ?? ''}`;
    throw error;
  }
}

t.test('a key for one model lists only that model and gets a 403 for the others, in both API formats', async (t) => {
  const key = keys('create', '--models', 'tycho-1.0');
  await until(() => chat(key), null);
  t.equal((await chat(key)).model, 'tycho-1.0');
  t.equal(await code(chat(key, 'hal-1.0')), '403 model_not_allowed');
  t.equal(await code(message(key, 'hal-1.0')), '403 model_not_allowed');
  t.equal(await code(openai(key).responses.create({ model: 'hal-1.0', input: 'x' })), '403 model_not_allowed');
  t.equal(
    await code(chat(key, 'nothing')),
    '404 model_not_found',
    'an unknown model gets a 404 even if the key is limited to one model',
  );
  // In all formats, the message lists the models that the key may use, and no others.
  const listing = /There is no model named "nothing" on this server\. Available: tycho-1\.0\.$/;
  const calls = [
    chat(key, 'nothing'),
    message(key, 'nothing'),
    openai(key).responses.create({ model: 'nothing', input: 'x' }),
    openai(key).completions.create({ model: 'nothing', prompt: 'x' }),
    anthropic(key).messages.countTokens({ model: 'nothing', messages: [{ role: 'user', content: 'x' }] }),
    openai(key).models.retrieve('nothing'),
    anthropic(key).models.retrieve('nothing'),
  ];
  const messages = await Promise.all(calls.map((call) => Promise.resolve(call).then(() => '', messageOf)));
  for (const [at, text] of messages.entries()) t.match(text, listing, `call ${at}`);
  const blind = keys('create', '--scopes', 'inference');
  await until(() => chat(blind), null);
  t.match(
    await chat(blind, 'nothing').then(() => '', messageOf),
    /on this server\.$/,
    'a key that may not list models learns no names',
  );
  const ids: string[] = [];
  for await (const { id } of openai(key).models.list()) ids.push(id);
  t.same(ids, ['tycho-1.0']);
  ids.length = 0;
  for await (const { id } of anthropic(key).models.list()) ids.push(id);
  t.same(ids, ['tycho-1.0']);
  t.equal(await code(openai(key).models.retrieve('hal-1.0')), '403 model_not_allowed');
  t.equal((await openai(key).models.retrieve('tycho-1.0')).id, 'tycho-1.0');
  t.equal((await anthropic(key).models.retrieve('tycho-1.0')).id, 'tycho-1.0');
});

t.test('every route requires its own scope', async (t) => {
  const inference = keys('create', '--scopes', 'inference');
  const reader = keys('create', '--scopes', 'responses.read,models.read');
  const counter = keys('create', '--scopes', 'tokens.count');
  await until(
    () => anthropic(counter).messages.countTokens({ model: 'tycho-1.0', messages: [{ role: 'user', content: 'x' }] }),
    null,
  );
  const { id } = await openai(inference).responses.create({ model: 'tycho-1.0', input: 'A: x' });
  const denied = '403 endpoint_not_allowed';
  t.equal(await code(openai(inference).responses.retrieve(id)), denied);
  t.equal(
    await code(openai(inference).responses.create({ model: 'tycho-1.0', previous_response_id: id, input: 'A: y' })),
    null,
    'the inference scope is enough to continue a conversation',
  );
  t.equal(await code(openai(inference).responses.inputItems.list(id)), denied);
  t.equal(await code(openai(inference).responses.delete(id)), denied);
  t.equal(
    await code(
      anthropic(inference).messages.countTokens({ model: 'tycho-1.0', messages: [{ role: 'user', content: 'x' }] }),
    ),
    denied,
  );
  t.equal((await openai(reader).responses.retrieve(id)).id, id);
  t.equal(await code(openai(reader).responses.delete(id)), denied);
  t.equal(await code(openai(reader).responses.cancel(id)), denied);
  for (const key of [reader, counter]) {
    t.equal(await code(chat(key)), denied);
    t.equal(await code(message(key)), denied);
    t.equal(await code(openai(key).responses.create({ model: 'tycho-1.0', input: 'x' })), denied);
  }
  t.equal((await openai(reader).models.list()).data.length, 3);
  t.equal((await anthropic(reader).models.retrieve('hal-1.0')).id, 'hal-1.0');
  for (const key of [inference, counter]) {
    t.equal(await code(openai(key).models.list()), denied);
    t.equal(await code(anthropic(key).models.retrieve('hal-1.0')), denied);
  }
  t.ok(
    (await anthropic(counter).messages.countTokens({ model: 'tycho-1.0', messages: [{ role: 'user', content: 'x' }] }))
      .input_tokens > 0,
  );
  t.equal(await handshakeStatus(server.port, reader), 403);
});

/** Waits until the call has the expected outcome. The server checks for changed keys once a second. */
async function until(call: () => Promise<unknown>, expected: string | null): Promise<void> {
  let last: unknown = null;
  if (!(await eventually(async () => (last = await code(call())) === expected)))
    throw new Error(`${String(last)}, not ${String(expected)}`);
}

t.test('an expired, revoked or rotated key gets a 401 within 5 seconds', async (t) => {
  const brief = keys('create', '--expires', '6s');
  await until(() => chat(brief), null);
  await until(() => chat(brief), '401 api_key_expired');
  t.equal(await code(message(brief)), '401 api_key_expired');
  t.equal(await code(chat('sk-AAAAAAAA-made-up')), '401 invalid_api_key');

  const old = keys('create', '--name', 'rotating', '--models', 'tycho-1.0');
  await until(() => chat(old), null);
  const connection = await Connection.open({ port: server.port, key: old });
  await connection.turn({ input: 'A: x', model: 'tycho-1.0' });
  const next = keys('rotate', old.slice(0, 11), '--overlap', '0');
  await until(() => chat(old), '401 api_key_revoked');
  t.match(await connection.turn({ input: 'A: x', model: 'tycho-1.0' }), [
    { type: 'error', status: 401, error: { code: 'api_key_revoked' } },
  ]);
  t.equal((await connection.closed)[0], 1008);
  t.equal(await code(chat(next)), null);
  t.equal(await code(chat(next, 'hal-1.0')), '403 model_not_allowed', 'the new key has the permissions of the old one');
  const made = JSON.parse(keys('rotate', next.slice(0, 11), '--json')) as CreatedApiKey;
  await sleep(1100);
  t.equal(await code(chat(next)), null, 'the old key still works during the overlap of a day');
  keys('revoke', next.slice(0, 11));
  await until(() => message(next), '401 api_key_revoked');
  t.match(made, { name: 'rotating', models: ['tycho-1.0'], status: 'active' });
});
