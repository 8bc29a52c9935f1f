// Tests the results of a batch of messages that are larger than all buffers: a slow client receives all of them, and
// detects that results are missing if the batch is deleted in the meantime.
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import t from 'tap';
import { newBatchId } from '../../src/shared/ids.js';
import { LmdbBatchStore } from '../../src/storage/lmdb/batches/batch-store.js';
import { eventually, startMonolith } from './monolith.js';
import { dataFolder, inside, keyOf } from './stored-server.js';

t.setTimeout(300_000); // the machine may be busy

const LINES = 64;
const LINE_CHARACTERS = 1024 ** 2;
const ORGANIZATION = `org_${'B'.repeat(24)}`;
const { path, remove } = dataFolder();
t.teardown(remove);
const key = await keyOf(path, 'second', { scopes: ['batches'] });

/** Stores a finished batch with LINES large results. */
async function storeBatch(): Promise<string> {
  const id = newBatchId('messages');
  await inside(path, async (store) => {
    const batches = new LmdbBatchStore(store, { retention_days: 30 });
    await batches.create(
      {
        id,
        organizationId: ORGANIZATION,
        keyId: 'key_x',
        kind: 'messages',
        endpoint: '/v1/messages',
        createdAt: Date.now(),
        expiresAt: Date.now() + 3_600_000,
        inputFileId: null,
        metadata: null,
        headers: {},
        outputExpiresS: null,
      },
      10,
    );
    await batches.addLines(
      id,
      Array.from({ length: LINES }, (_, at) => ({ line: at + 1, customId: `l${at}`, body: '{}' })),
    );
    await batches.begin(id, LINES, null);
    const text = JSON.stringify({ type: 'succeeded', message: 'x'.repeat(LINE_CHARACTERS) });
    for (const line of await batches.claim('test', LINES, 60_000))
      await batches.finish(line, { outcome: 'succeeded', text, usage: null });
    await batches.end(id, { outputFileId: null, errorFileId: null });
  });
  return id;
}

const ids = [await storeBatch(), await storeBatch()];
const server = await startMonolith({ args: [], env: { MONOLITH_DATA_DIR: path } });
t.teardown(() => server.stop());
const headers = { 'x-api-key': key, 'anthropic-version': '2023-06-01' };

async function results(id: string): Promise<IncomingMessage> {
  const request = get(`${server.url}/v1/messages/batches/${id}/results`, { headers });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  return response;
}

/** Reads the rest of the response. Returns the number of complete lines, and the error if the connection broke. */
async function rest(response: IncomingMessage): Promise<{ lines: number; error: Error | null }> {
  let lines = 0;
  try {
    for await (const piece of response) for (const byte of piece as Buffer) if (byte === 0x0a) lines++;
  } catch (error) {
    return { lines, error: error as Error };
  }
  return { lines, error: null };
}

t.test('a slow client receives all results', async (t) => {
  const response = await results(ids[0]!);
  await new Promise((resolve) => setTimeout(resolve, 500)); // reads nothing meanwhile
  t.same(await rest(response), { lines: LINES, error: null });
});

t.test('the connection breaks if the batch is deleted while its results are being read', async (t) => {
  const [, id] = ids as [string, string];
  const response = await results(id);
  await once(response, 'readable');
  const deleted = await fetch(`${server.url}/v1/messages/batches/${id}`, { method: 'DELETE', headers });
  t.equal(deleted.status, 200);
  const { lines, error } = await rest(response);
  t.ok(lines < LINES, `${lines} lines`);
  t.match(error, { code: 'ECONNRESET' });
  t.ok(await eventually(async () => (await results(id)).statusCode === 404));
});
