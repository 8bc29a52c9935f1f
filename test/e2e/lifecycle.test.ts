// Tests a model's lifecycle (deprecated and retired, with dates and a successor) and model aliases.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t from 'tap';
import { configWith } from '../../src/config/load.js';
import type { DashboardModel } from '../../src/shared/wire/models.js';
import { startServer } from '../../src/server/server.js';
import { writeScriptModel } from '../support/script-model.js';

t.setTimeout(300_000); // the machine may be busy

const TOKEN = 'an-operator-token-0123';
const folder = mkdtempSync(join(tmpdir(), 'monolith-lifecycle-'));
const file = join(folder, 'script.gguf');
writeScriptModel(file);
const settings = {
  port: 0,
  data_dir: join(folder, 'data'),
  log_level: 'silent',
  model: [`hal-1.0=${file}`, `tycho-1.0=${file}`],
  admin: { token: TOKEN, port: 0 },
};
const server = await startServer(
  configWith({ ...settings, models: { aliases: { 'gpt-4o': 'hal-1.0', 'claude-x': 'tycho-1.0' } } }),
);
t.teardown(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

const apiKey = server.createdKey as string;
const clients = (key = apiKey): { openai: OpenAI; anthropic: Anthropic } => ({
  openai: new OpenAI({ baseURL: `${server.url}/v1`, apiKey: key, maxRetries: 0 }),
  anthropic: new Anthropic({ baseURL: server.url, apiKey: key, maxRetries: 0 }),
});
const { openai, anthropic } = clients();
const messages = [{ role: 'user' as const, content: 'A: x' }];

async function patch(
  model: string,
  body: object,
): Promise<{ status: number; body: DashboardModel & { error?: { code: string; param: string; message: string } } }> {
  const answer = await fetch(`${server.adminUrl as string}/admin/api/models/${model}`, {
    method: 'PATCH',
    body: JSON.stringify(body),
    headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
  });
  return { status: answer.status, body: (await answer.json()) as DashboardModel };
}

const day = (days: number): string => new Date(Date.UTC(2030, 0, 1 + days)).toISOString();

t.test('a response shows the requested alias, while permissions follow the model behind it', async (t) => {
  t.equal((await openai.chat.completions.create({ model: 'gpt-4o', messages })).model, 'gpt-4o');
  const chunks = await openai.chat.completions.create({ model: 'gpt-4o', messages, stream: true });
  for await (const { model } of chunks) t.equal(model, 'gpt-4o');
  t.equal((await anthropic.messages.create({ model: 'claude-x', max_tokens: 30, messages })).model, 'claude-x');
  const first = await openai.responses.create({ model: 'gpt-4o', input: 'A: x' });
  t.equal(first.model, 'gpt-4o');
  t.equal(
    ((await openai.responses.create({ previous_response_id: first.id, input: 'S: y' } as never)) as { model: string })
      .model,
    'gpt-4o',
    'a response that continues another keeps the alias',
  );
  const listed = (await openai.models.list()).data.map(({ id }) => id);
  t.same(listed, ['hal-1.0', 'tycho-1.0'], 'aliases are not listed');
  t.match(await openai.models.retrieve('gpt-4o'), { id: 'gpt-4o', display_name: 'hal-1.0' } as never);
  t.match(await anthropic.models.retrieve('claude-x'), { id: 'claude-x', type: 'model' });
  const { secret } = await server.accounts.createKey({ name: 'small', models: ['tycho-1.0'] });
  const small = clients(secret);
  await t.rejects(small.openai.chat.completions.create({ model: 'gpt-4o', messages }), {
    status: 403,
    code: 'model_not_allowed',
  } as never);
  await t.rejects(small.openai.models.retrieve('gpt-4o'), { status: 403 } as never);
  t.equal((await small.openai.chat.completions.create({ model: 'claude-x', messages })).model, 'claude-x');
});

t.test('startup fails if an alias refers to no model or is already the name of a model', async (t) => {
  for (const [aliases, problem] of [
    [{ x: 'nothing' }, /"x" refers to "nothing"/],
    [{ 'hal-1.0': 'tycho-1.0' }, /"hal-1.0" is already the name of a model/],
  ] as const) {
    await t.rejects(startServer(configWith({ ...settings, data_dir: join(folder, 'other'), models: { aliases } })), {
      name: 'CatalogError',
      message: problem,
    } as never);
  }
});

t.test('a deprecated model is served with deprecation headers and dates, in both API formats', async (t) => {
  t.match(
    await patch('hal-1.0', {
      lifecycle: 'deprecated',
      deprecated_at: day(0),
      retires_at: day(89),
      successor: 'tycho-1.0',
    }),
    { status: 422, body: { error: { code: 'value_out_of_range', param: 'retires_at' } } },
  );
  t.match(await patch('hal-1.0', { successor: 'hal-1.0' }), { status: 422, body: { error: { param: 'successor' } } });
  t.match(await patch('hal-1.0', { lifecycle: 'gone' }), {
    status: 422,
    body: { error: { code: 'invalid_value', param: 'lifecycle' } },
  });
  t.match(
    await patch('hal-1.0', {
      lifecycle: 'deprecated',
      deprecated_at: day(0),
      retires_at: day(90),
      successor: 'tycho-1.0',
    }),
    { status: 200, body: { lifecycle: 'deprecated', retires_at: day(90), successor: 'tycho-1.0' } },
  );

  for (const [model, deprecated] of [
    ['hal-1.0', 'true'],
    ['gpt-4o', 'true'],
    ['tycho-1.0', null],
  ] as const) {
    const { response } = await openai.chat.completions.create({ model, messages }).withResponse();
    t.equal(response.headers.get('deprecation'), deprecated, model);
    t.equal(response.headers.get('sunset'), deprecated === null ? null : new Date(day(90)).toUTCString());
  }
  const streamed = await anthropic.messages
    .create({ model: 'hal-1.0', max_tokens: 30, messages, stream: true })
    .withResponse();
  t.equal(streamed.response.headers.get('deprecation'), 'true');
  for await (const _ of streamed.data) {
    /* read the stream to its end */
  }
  const { response } = await openai.responses.create({ model: 'hal-1.0', input: 'A: x' }).withResponse();
  t.equal(response.headers.get('deprecation'), 'true');
  t.match(await openai.models.retrieve('hal-1.0'), {
    lifecycle: 'deprecated',
    shutdown_date: day(90),
    retires_at: day(90),
    successor: 'tycho-1.0',
  } as never);
  t.match(await anthropic.models.retrieve('hal-1.0'), {
    lifecycle: 'deprecated',
    deprecated_at: day(0),
    retires_at: day(90),
  } as never);
  t.equal((await openai.models.list()).data.length, 2, 'a deprecated model is still listed');
});

t.test('a retired model gets a 404 that names the successor, and reactivation clears its dates', async (t) => {
  t.match(await patch('hal-1.0', { lifecycle: 'retired' }), { status: 200, body: { lifecycle: 'retired' } });
  const gone = { status: 404, message: /retired.*tycho-1\.0/ };
  await t.rejects(openai.chat.completions.create({ model: 'hal-1.0', messages }), {
    ...gone,
    code: 'model_not_found',
  } as never);
  await t.rejects(openai.chat.completions.create({ model: 'gpt-4o', messages }), gone as never);
  await t.rejects(anthropic.messages.create({ model: 'hal-1.0', max_tokens: 1, messages }), gone as never);
  await t.rejects(openai.responses.create({ model: 'hal-1.0', input: 'x' }), gone as never);
  await t.rejects(openai.models.retrieve('hal-1.0'), gone as never);
  t.same(
    (await openai.models.list()).data.map(({ id }) => id),
    ['tycho-1.0'],
  );
  const all = await fetch(`${server.url}/v1/models?lifecycle[]=retired`, {
    headers: { authorization: `Bearer ${apiKey}` },
  });
  t.match(await all.json(), { data: [{ id: 'hal-1.0', lifecycle: 'retired' }] });
  t.match(await patch('hal-1.0', { lifecycle: 'active' }), {
    status: 200,
    body: { lifecycle: 'active', deprecated_at: null, retires_at: null },
  });
  t.equal((await openai.chat.completions.create({ model: 'hal-1.0', messages })).model, 'hal-1.0');
  t.match(
    await patch('hal-1.0', {
      deprecated_at: new Date(Date.now() - 91 * 86_400_000).toISOString(),
      retires_at: new Date(Date.now() - 1000).toISOString(),
    }),
    { body: { lifecycle: 'retired' } },
    'a retirement date takes effect on its own once it has passed',
  );
  await patch('hal-1.0', { lifecycle: 'active' });
});
