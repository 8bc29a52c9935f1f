// Tests that all requests of a suspended organization or a revoked key are refused on every endpoint, and that its
// running requests end with an error within 5 seconds in every format, whichever process made the change.

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
import { startServer } from '../../src/server/server.js';
import { writeScriptModel } from '../support/script-model.js';
import { Connection, handshakeStatus } from '../support/web-socket.js';
import { eventually } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const TOKEN = 'an-operator-token-0123';
const folder = mkdtempSync(join(tmpdir(), 'monolith-suspension-'));
const file = join(folder, 'script.gguf');
writeScriptModel(file);
const server = await startServer(
  configWith({
    port: 0,
    data_dir: join(folder, 'data'),
    log_level: 'silent',
    model: [`hal-1.0=${file}`],
    admin: { token: TOKEN, port: 0 },
  }),
);
t.teardown(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

const apiKey = server.createdKey as string;
const organizationId = (await server.accounts.organizations.all())[0]?.id as string;
const endless = { role: 'user' as const, content: 'L: tell me' };
const model = 'hal-1.0';
const clients = (key: string): { openai: OpenAI; anthropic: Anthropic } => ({
  openai: new OpenAI({ baseURL: `${server.url}/v1`, apiKey: key, maxRetries: 0 }),
  anthropic: new Anthropic({ baseURL: server.url, apiKey: key, maxRetries: 0 }),
});
interface Refusal {
  status: number;
  code: string;
}
const SUSPENDED: Refusal = { status: 403, code: 'organization_suspended' };
const REVOKED: Refusal = { status: 401, code: 'api_key_revoked' };

async function everything(
  apiKey: string,
): Promise<{ first: Promise<unknown>[]; ends: Promise<unknown>[]; background: string }> {
  const { openai, anthropic } = clients(apiKey);
  const ends: Promise<unknown>[] = [];
  const first: Promise<unknown>[] = [];
  /** Reads the stream to its end and records the error that ended it. */
  const read = (stream: AsyncIterable<unknown>): void => {
    let begun: () => void = () => undefined;
    first.push(
      new Promise<void>((resolve) => {
        begun = resolve;
      }),
    );
    ends.push(
      (async () => {
        for await (const _ of stream) begun();
        return 'an end without an error';
      })().catch((error: unknown) => error),
    );
  };
  read(await openai.chat.completions.create({ model, messages: [endless], max_tokens: 15_000, stream: true }));
  read(await anthropic.messages.create({ model, messages: [endless], max_tokens: 15_000, stream: true }));
  read(await openai.responses.create({ model, input: endless.content, max_output_tokens: 15_000, stream: true }));
  ends.push(
    openai.chat.completions.create({ model, messages: [endless], max_tokens: 15_000 }).catch((error: unknown) => error),
  );
  const connection = await Connection.open({ port: server.port, key: apiKey });
  connection.send({ input: endless.content, max_output_tokens: 15_000 });
  first.push(connection.next());
  ends.push(connection.rest().then((events) => events.at(-1)));
  const { id } = await openai.responses.create({
    model,
    input: endless.content,
    max_output_tokens: 15_000,
    background: true,
  });
  read(await openai.responses.retrieve(id, { stream: true }));
  await Promise.all(first);
  return { first, ends, background: id };
}

/** Returns the id of the background response that was running. */
async function check(
  test: Test,
  end: () => Promise<unknown>,
  { status, code }: Refusal,
  key = apiKey,
  others = 0,
): Promise<string> {
  const { openai, anthropic } = clients(key);
  const { ends, background } = await everything(key);
  const began = performance.now();
  await end();
  const [chat, message, response, whole, turn, stored] = await Promise.all(ends);
  test.ok(performance.now() - began < 10_000, `all requests ended after ${Math.round(performance.now() - began)} ms`);
  test.match(chat, { code }, 'the chat stream ends with the error');
  test.match(JSON.stringify((message as { error?: unknown }).error), code, 'the messages stream ends with the error');
  test.match(response, { code }, 'the responses stream ends with the error');
  test.match(whole, { status, code }, 'a request without streaming gets the error');
  test.match(turn, { type: 'response.failed' }, 'the WebSocket response fails');
  test.match(stored, { code }, 'the stream of a background response ends with the error');
  await eventually(() =>
    openai.models.list().then(
      () => false,
      () => true,
    ),
  ); // a change by another process is seen within a second
  const calls: (() => Promise<unknown>)[] = [
    () => openai.models.list(),
    () => openai.responses.retrieve(background),
    () => openai.chat.completions.create({ model, messages: [endless] }),
  ];
  for (const call of calls) {
    await test.rejects(call(), { status, code } as never);
  }
  await test.rejects(anthropic.messages.create({ model, max_tokens: 1, messages: [endless] }), { status } as never);
  test.equal(await handshakeStatus(server.port, key), status);
  test.ok(
    await eventually(() =>
      server.pool.engines().every(({ status }) => status.state === 'ready' && status.engine.stats().running === others),
    ),
    'none of the requests is still running',
  );
  return background;
}

// Runs in another process, because a thread that opens the same database twice would wait forever for its own batch of
// writes.
const source = (path: string): string => JSON.stringify(new URL(`../../src/${path}`, import.meta.url).href);
const program = (change: string): string => `
  import { openAccounts } from ${source('storage/lmdb/accounts/directory.js')};
  import { openStore } from ${source('storage/lmdb/lmdb-store.js')};
  const store = await openStore(${JSON.stringify(join(folder, 'data'))});
  const accounts = openAccounts(store);
  await accounts.${change};
  await accounts.close();
  await store.close();
`;
const elsewhere = (change: string): Promise<unknown> =>
  promisify(execFile)(process.execPath, ['--input-type=module', '-e', program(change)]);

t.test('suspending an organization with the operator API ends and refuses its requests', async (t) => {
  const background = await check(
    t,
    async () => {
      const answer = await fetch(`${server.adminUrl as string}/admin/api/organizations/${organizationId}`, {
        method: 'PATCH',
        body: JSON.stringify({ status: 'suspended' }),
        headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
      });
      t.match(await answer.json(), { id: organizationId, status: 'suspended' });
    },
    SUSPENDED,
  );
  await server.accounts.setOrganizationStatus(organizationId, 'active');
  const { openai } = clients(apiKey);
  t.ok((await openai.models.list()).data.length > 0, 'the organization works again after the suspension');
  t.match(
    await openai.responses.retrieve(background),
    { status: 'failed', error: { message: /suspended/ } } as never,
    'the background response is stored as failed',
  );
});

t.test('a suspension made by another process ends and refuses the requests of the organization', async (t) => {
  await check(t, () => elsewhere(`setOrganizationStatus(${JSON.stringify(organizationId)}, 'suspended')`), SUSPENDED);
  await server.accounts.setOrganizationStatus(organizationId, 'active');
});

t.test(
  'revoking a key in this or another process, or replacing it by rotation, ends its requests and does not affect other keys',
  async (t) => {
    const other = clients(apiKey).openai;
    const { keys } = server.accounts;
    const operator = { type: 'operator_api', id: null, email: null, ip: null } as const;
    const ends: readonly ((id: string) => Promise<unknown>)[] = [
      (id) => keys.revoke(organizationId, id, null),
      (id) => elsewhere(`revokeKey(${JSON.stringify(id)})`),
      (id) => keys.rotate(organizationId, id, 1, operator, null),
    ];
    for (const end of ends) {
      const { key, secret } = await server.accounts.createKey({ name: 'k' }, organizationId);
      const spared = await other.chat.completions.create({
        model,
        messages: [endless],
        max_tokens: 15_000,
        stream: true,
      });
      const background = await check(t, () => end(key.id), REVOKED, secret, 1);
      t.match(
        await other.responses.retrieve(background),
        { status: 'failed', error: { message: /revoked/ } } as never,
        'the background response is stored as failed',
      );
      let pieces = 0;
      for await (const _ of spared) if (++pieces === 50) break;
      t.equal(pieces, 50, 'a stream of another key continues');
    }
  },
);

t.test("a stream that follows another key's background response ends when the reader's key is revoked", async (t) => {
  const { key, secret } = await server.accounts.createKey({ name: 'reader' }, organizationId);
  const owner = clients(apiKey).openai;
  const { id } = await owner.responses.create({
    model,
    input: endless.content,
    max_output_tokens: 15_000,
    background: true,
  });
  const stream = await clients(secret).openai.responses.retrieve(id, { stream: true });
  const read = (async () => {
    for await (const _ of stream);
  })();
  await server.accounts.revokeKey(key.id);
  await t.rejects(read, { code: 'api_key_revoked' } as never);
  t.match(
    await owner.responses.retrieve(id),
    { status: 'in_progress' } as never,
    'the response itself is still running',
  );
  await owner.responses.cancel(id);
});
