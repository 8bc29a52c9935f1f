// A suspended organization: 403 everywhere, and what runs ends with an error within 5 seconds, in every format,
// wherever it was suspended.

import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t from 'tap';
import type { Test } from 'tap';
import { configWith } from '../../src/config/load.js';
import { startServer } from '../../src/server.js';
import { writeScriptModel } from '../support/script-model.js';
import { Connection, handshakeStatus } from '../support/web-socket.js';
import { eventually } from './monolith.js';

t.setTimeout(300_000);     // for a busy machine

const TOKEN = 'an-operator-token-0123';
const folder = mkdtempSync(join(tmpdir(), 'monolith-suspension-'));
const file = join(folder, 'script.gguf');
writeScriptModel(file);
const server = await startServer(configWith({
  port: 0, data_dir: join(folder, 'data'), log_level: 'silent', model: [`hal-1.0=${file}`], admin: { token: TOKEN, port: 0 },
}));
t.teardown(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

const apiKey = server.createdKey as string;
const organizationId = (await server.accounts.organizations.all())[0]?.id as string;
const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: server.url, apiKey, maxRetries: 0 });
const endless = { role: 'user' as const, content: 'L: tell me' };
const model = 'hal-1.0';

async function everything(): Promise<{ first: Promise<unknown>[]; ends: Promise<unknown>[]; background: string }> {
  const ends: Promise<unknown>[] = [];
  const first: Promise<unknown>[] = [];
  /** Reads to the end; resolves to what it ended with. */
  const read = (stream: AsyncIterable<unknown>): void => {
    let begun: () => void = () => undefined;
    first.push(new Promise<void>((resolve) => { begun = resolve; }));
    ends.push((async () => {
      for await (const _ of stream) begun();
      return 'an end without an error';
    })().catch((error: unknown) => error));
  };
  read(await openai.chat.completions.create({ model, messages: [endless], max_tokens: 15_000, stream: true }));
  read(await anthropic.messages.create({ model, messages: [endless], max_tokens: 15_000, stream: true }));
  read(await openai.responses.create({ model, input: endless.content, max_output_tokens: 15_000, stream: true }));
  ends.push(openai.chat.completions.create({ model, messages: [endless], max_tokens: 15_000 }).catch((error: unknown) => error));
  const connection = await Connection.open({ port: server.port, key: apiKey });
  connection.send({ input: endless.content, max_output_tokens: 15_000 });
  first.push(connection.next());
  ends.push(connection.rest().then((events) => events.at(-1)));
  const { id } = await openai.responses.create({ model, input: endless.content, max_output_tokens: 15_000, background: true });
  read(await openai.responses.retrieve(id, { stream: true }));
  await Promise.all(first);
  return { first, ends, background: id };
}

/** Resolves to the id of a background response that was running. */
async function check(test: Test, suspend: () => Promise<unknown>): Promise<string> {
  const { ends, background } = await everything();
  await suspend();
  const [chat, message, response, whole, turn, stored] = await Promise.all(ends);
  test.match(chat, { code: 'organization_suspended' }, 'chat stream');
  test.match(JSON.stringify((message as { error?: unknown }).error), 'organization_suspended', 'messages stream');
  test.match(response, { code: 'organization_suspended' }, 'responses stream');
  test.match(whole, { status: 403, code: 'organization_suspended' }, 'an answer wanted whole');
  test.match(turn, { type: 'response.failed' }, 'WebSocket');
  test.match(stored, { code: 'organization_suspended' }, 'the stream of a background response');
  await eventually(() => openai.models.list().then(() => false, () => true));   // what other processes do is seen within a second
  const calls: (() => Promise<unknown>)[] = [() => openai.models.list(), () => openai.responses.retrieve(background), () => openai.chat.completions.create({ model, messages: [endless] })];
  for (const call of calls) {
    await test.rejects(call(), { status: 403, code: 'organization_suspended' } as never);
  }
  await test.rejects(anthropic.messages.create({ model, max_tokens: 1, messages: [endless] }), { status: 403 } as never);
  test.equal(await handshakeStatus(server.port, apiKey), 403);
  test.ok(await eventually(() => server.pool.engines().every(({ status }) => status.state === 'ready' && status.engine.stats().running === 0)), 'nothing runs any more');
  return background;
}

t.test('by the operator API', async (t) => {
  const background = await check(t, async () => {
    const answer = await fetch(`${server.adminUrl as string}/admin/api/organizations/${organizationId}`, {
      method: 'PATCH', body: JSON.stringify({ status: 'suspended' }), headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
    });
    t.match(await answer.json(), { id: organizationId, status: 'suspended' });
  });
  await server.accounts.setOrganizationStatus(organizationId, 'active');
  t.ok((await openai.models.list()).data.length > 0, 'and back again');
  t.match(await openai.responses.retrieve(background), { status: 'failed', error: { message: /suspended/ } } as never, 'it is stored as it ended');
});

t.test('by another process', async (t) => {
  // Indeed another: a database that is opened twice by one thread waits for that thread's own batch of writes, for ever.
  const source = (path: string): string => JSON.stringify(new URL(`../../src/${path}`, import.meta.url).href);
  const program = `
    import { openAccounts } from ${source('accounts/lmdb-directory.js')};
    import { openStore } from ${source('storage/lmdb-store.js')};
    const store = await openStore(${JSON.stringify(join(folder, 'data'))});
    const accounts = openAccounts(store);
    await accounts.setOrganizationStatus(${JSON.stringify(organizationId)}, 'suspended');
    await accounts.close();
    await store.close();
  `;
  await check(t, async () => { await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]); });
});
