// Imports conversations, stored chat completions, files, batches and webhooks of a data directory into PostgreSQL, and
// compares the contents of both stores.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import {
  newAccountId,
  newBatchId,
  newConversationId,
  newEventId,
  newFileId,
  newStoredCompletionId,
  newUploadId,
} from '../../src/shared/ids.js';
import type { BatchKind, BatchStore } from '../../src/storage/batch-store.js';
import type { CompletionStore } from '../../src/storage/completion-store.js';
import type { ConversationStore } from '../../src/storage/conversation-store.js';
import { ROW_BYTES, type FileStore } from '../../src/storage/file-store.js';
import { LmdbBatchStore } from '../../src/storage/lmdb/batches/batch-store.js';
import { LmdbCompletionStore } from '../../src/storage/lmdb/completions/completion-store.js';
import { LmdbConversationStore } from '../../src/storage/lmdb/conversations/conversation-store.js';
import { LmdbFileContents } from '../../src/storage/lmdb/files/contents.js';
import { LmdbFileStore } from '../../src/storage/lmdb/files/file-store.js';
import { LmdbUploadStore } from '../../src/storage/lmdb/files/upload-store.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import { LmdbWebhookStore } from '../../src/storage/lmdb/webhooks/webhook-store.js';
import { PostgresBatchStore } from '../../src/storage/postgres/batches/batch-store.js';
import { PostgresCompletionStore } from '../../src/storage/postgres/completions/completion-store.js';
import { PostgresConversationStore } from '../../src/storage/postgres/conversations/conversation-store.js';
import { openPool, type Database } from '../../src/storage/postgres/database.js';
import { PostgresFileContents } from '../../src/storage/postgres/files/contents.js';
import { PostgresFileStore } from '../../src/storage/postgres/files/file-store.js';
import { PostgresUploadStore } from '../../src/storage/postgres/files/upload-store.js';
import { PostgresWebhookStore } from '../../src/storage/postgres/webhooks/webhook-store.js';
import type { Store } from '../../src/storage/store.js';
import type { UploadStore } from '../../src/storage/upload-store.js';
import type { Endpoint, Job, WebhookStore } from '../../src/webhooks/webhook-store.js';
import { commandHost } from '../support/command-host.js';
import { postgresFor } from '../support/databases.js';
import { leaveOutIf } from '../support/needed-programs.js';
import { withoutPostgres } from '../support/postgres.js';

t.setTimeout(300_000); // the machine may be busy

leaveOutIf(t, withoutPostgres);
const postgres = await postgresFor(t);
const folder = mkdtempSync(join(tmpdir(), 'monolith-import-contents-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));

const ORG = 'org_a';
const NOW = Date.now();
const SECONDS = Math.floor(NOW / 1_000);
const RETENTION = { retention_days: 30 };
const LIMITS = { max_bytes: 1e9, organization_bytes: 1e9, total_bytes: 1e10 };

/** The stores of one side. */
interface Side {
  conversations: ConversationStore;
  completions: CompletionStore;
  files: FileStore;
  uploads: UploadStore;
  batches: BatchStore;
  webhooks: WebhookStore;
}

function lmdbSide(store: Store): Side {
  const contents = new LmdbFileContents(store, LIMITS, () => Date.now() / 1_000);
  const files = new LmdbFileStore(contents);
  return {
    conversations: new LmdbConversationStore(store, RETENTION),
    completions: new LmdbCompletionStore(store, RETENTION),
    files,
    uploads: new LmdbUploadStore(contents, files),
    batches: new LmdbBatchStore(store, RETENTION),
    webhooks: new LmdbWebhookStore(store),
  };
}

function postgresSide(database: Database): Side {
  const contents = new PostgresFileContents(database, LIMITS, () => Date.now() / 1_000);
  const files = new PostgresFileStore(contents);
  return {
    conversations: new PostgresConversationStore(database, RETENTION),
    completions: new PostgresCompletionStore(database, RETENTION),
    files,
    uploads: new PostgresUploadStore(contents, files),
    batches: new PostgresBatchStore(database, RETENTION),
    webhooks: new PostgresWebhookStore(database),
  };
}

const conversation = newConversationId();
const completion = newStoredCompletionId();
const upload = newUploadId();
const batches: Record<string, string> = {};
const endpoint: Endpoint = {
  id: newAccountId('wh'),
  organizationId: ORG,
  url: 'https://example.com/hook',
  events: ['batch.completed'],
  sealedSecret: 'sealed',
  createdAt: NOW,
  disabled: null,
  failures: 2,
  pausedUntil: NOW + 5_000,
  deliveredAt: NOW - 1_000,
};
let file = '';
let held = '';

async function fill({ conversations, completions, files, uploads, batches: store, webhooks }: Side): Promise<void> {
  await conversations.create(
    { id: conversation, organizationId: ORG, createdAt: SECONDS, metadata: { a: 'b"\u00e4' } },
    [
      { id: 'msg_1', item: { type: 'message', text: 'nul \0, \ud800 and "quotes" \\' } },
      { id: 'msg_2', item: { type: 'image' }, images: [new Uint8Array([0, 1, 255]), new Uint8Array([92, 34])] },
      { id: 'msg_1', item: { type: 'message', text: 'the same ID' }, output: true },
    ],
  );
  await conversations.removeItem(ORG, conversation, 'msg_2');
  await conversations.append(ORG, conversation, [{ id: 'msg_3', item: { n: 1 }, images: [new Uint8Array([7])] }]);
  await completions.save({
    id: completion,
    organizationId: ORG,
    model: 'm',
    createdAt: SECONDS,
    metadata: { k: 'v' },
    body: '{"id":"x"}',
    messages: ['{"role":"user"}', '{"role":"assistant"}'],
  });
  const add = async (bytes: number, name: string): Promise<string> => {
    const writer = files.create(ORG);
    await writer.write(Buffer.alloc(bytes, `${name} with some text \\ "`));
    const expiresAt = SECONDS + 86_400;
    return (await writer.finish({ purpose: 'batch', filename: name, mediaType: 'text/plain', expiresAt })).id;
  };
  file = await add(2 * ROW_BYTES + 777, 'large "file"');
  await add(0, 'empty');
  held = await add(10, 'held');
  await files.hold(ORG, held, 'batch_x');
  await files.delete(ORG, held);
  const open = await uploads.create({
    id: upload,
    organizationId: ORG,
    purpose: 'batch',
    filename: 'u',
    mediaType: 'text/plain',
    bytes: 20,
    createdAt: SECONDS,
    fileLifetimeS: 7_200,
  });
  const part = uploads.addPart(open);
  await part.write(Buffer.from('0123456789'));
  await part.finish();
  for (const [name, kind] of [
    ['ended', 'messages'],
    ['running', 'openai'],
    ['validating', 'openai'],
  ] as [string, BatchKind][]) {
    const id = (batches[name] = newBatchId(kind));
    await store.create(
      {
        id,
        organizationId: ORG,
        keyId: 'key_a',
        kind,
        endpoint: '/v1/chat/completions',
        createdAt: NOW,
        expiresAt: NOW + 86_400_000,
        inputFileId: newFileId(),
        metadata: { m: 'n' },
        headers: { 'anthropic-beta': 'x' },
        outputExpiresS: 3_600,
      },
      10,
    );
    await store.addLines(
      id,
      [1, 2, 3].map((line) => ({ line, customId: `c"${line}`, body: `{"n":${line},"nul":"\\u0000"}` })),
    );
    if (name === 'validating') continue;
    await store.begin(id, 3, 'm');
    const lines = await store.claim('lost process', name === 'ended' ? 3 : 2, 600_000);
    for (const line of name === 'ended' ? lines : lines.slice(0, 1))
      await store.finish(line, {
        outcome: line.line === 2 ? 'errored' : 'succeeded',
        text: `{"line":${line.line}}`,
        usage: { input: 1, cached: 0, output: 2, reasoning: 0 },
      });
    if (name === 'ended') await store.end(id, { outputFileId: null, errorFileId: null });
  }
  await webhooks.addEndpoint(endpoint, 10);
  const delivery = (state: Job['state'], dueAt: number | null): Job => {
    const eventId = newEventId();
    return {
      id: `${eventId}.${endpoint.id}`,
      organizationId: ORG,
      endpointId: endpoint.id,
      eventId,
      type: 'batch.completed',
      body: '{"a":1}',
      state,
      createdAt: NOW,
      dueAt,
      attempts: 3,
      error: state === 'failed' ? 'why' : null,
    };
  };
  await webhooks.add([delivery('pending', NOW - 1), delivery('failed', null)]);
}

/** Everything that the stores return about the contents above. */
async function contentsOf({ conversations, completions, files, uploads, batches: store, webhooks }: Side) {
  const bytesOf = async (id: string, holder?: string): Promise<string> => {
    const pieces: Uint8Array[] = [];
    for await (const piece of files.read(ORG, id, { ...(holder === undefined ? {} : { holder }) })) pieces.push(piece);
    return Buffer.concat(pieces).toString('base64');
  };
  const open = await uploads.get(ORG, upload);
  return {
    conversation: {
      head: await conversations.head(ORG, conversation),
      items: (await conversations.items(ORG, conversation))?.map(({ images = [], ...item }) => ({
        ...item,
        images: images.map((bytes) => [...bytes]),
      })),
    },
    completion: {
      whole: await completions.get(ORG, completion),
      messages: await completions.messages(ORG, completion, { newestFirst: false, after: null, limit: 10 }),
    },
    files: {
      list: await files.list(ORG, { newestFirst: false, after: null, limit: 10 }),
      batch: (await files.list(ORG, { purpose: 'batch', newestFirst: true, after: null, limit: 10 })).files.length,
      large: await bytesOf(file),
      held: [await files.get(ORG, held), await files.get(ORG, held, 'batch_x'), await bytesOf(held, 'batch_x')],
      used: await files.usedBytes(ORG),
      upload: open,
      parts: await uploads.parts(open!),
    },
    batches: {
      openai: await store.list(ORG, 'openai', { limit: 10 }),
      messages: await store.list(ORG, 'messages', { limit: 10 }),
      results: await Promise.all(Object.values(batches).map((id) => store.results(id, 0, 1e6))),
    },
    webhooks: {
      endpoints: await webhooks.endpoints(ORG),
      deliveries: await webhooks.deliveries(ORG, endpoint.id, 10),
    },
  };
}

const source = await openStore(folder);
await fill(lmdbSide(source));
await source.close();

t.test('both stores have the same contents', async (t) => {
  const url = await postgres.create();
  const monolith = commandHost(t, { HOME: join(folder, 'home'), MONOLITH_DATA_DIR: join(folder, 'home') });
  const imported = await monolith(['state', 'import', '--from', folder, '--database', url]);
  t.equal(imported.status, 0, imported.err);
  t.match(imported.out, /file-rows +6 [\s\S]*batch-lines +5 [\s\S]*batch-results +4 [\s\S]*webhook-jobs +2 /);
  const kept = await openStore(folder);
  t.teardown(() => kept.close());
  const database = openPool({ url, connections: 4, timeout_ms: 10_000 });
  t.teardown(() => database.close());
  const [before, after] = [lmdbSide(kept), postgresSide(database)];
  const expected = await contentsOf(before);
  t.equal(expected.conversation.items?.length, 3);
  t.equal(expected.files.list.files.length, 2);
  t.equal(expected.webhooks.deliveries.length, 2);
  t.same(await contentsOf(after), expected);

  t.test('the imported batches and webhooks go on', async (t) => {
    const claimed = await after.batches.claim('p', 10, 30_000);
    t.same(
      claimed.map(({ batch, line, lost }) => [batch.id, line, lost]),
      [
        [batches['running'], 2, 1],
        [batches['running'], 3, 0],
      ],
      'also the line that the process of the folder was running',
    );
    for (const line of claimed) t.ok(await after.batches.finish(line, { outcome: 'errored', text: '{}', usage: null }));
    t.match(await after.batches.get(ORG, batches['running']!), { phase: 'finalizing' });
    t.equal((await after.webhooks.claim(NOW, NOW + 1_000, 10)).length, 1);
    const open = (await after.uploads.get(ORG, upload))!;
    const more = after.uploads.addPart(open);
    await more.write(Buffer.from('abcdefghij'));
    const parts = [...(await after.uploads.parts(open)), await more.finish()];
    const description = { purpose: 'batch', filename: 'u', mediaType: 'text/plain', expiresAt: SECONDS + 1_000 };
    t.equal((await after.uploads.complete(open, parts, description)).bytes, 20);
    await after.files.release(ORG, held, 'batch_x');
    t.equal(await after.files.get(ORG, held, 'batch_x'), null);
    t.ok(await after.files.delete(ORG, file));
    t.equal(await after.files.usedBytes(ORG), 1_024 + 2 * 1_024, 'the empty file and the two parts');
  });
});
