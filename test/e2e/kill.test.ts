// kill -9 under load: every response whose final event or whole answer a client has seen is there after the
// restart, as it was seen; none is there in part.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI from 'openai';
import t from 'tap';
import type { Head } from '../../src/storage/lmdb/response-tables.js';
import type { TableName } from '../../src/storage/store.js';
import { startScripted } from '../support/script-model.js';
import { eventually } from './monolith.js';
import { dataFolder, inside } from './stored-server.js';

t.setTimeout(300_000);     // for a busy machine

const KILLS = 3;
const CLIENTS = 8;

t.test('killed while clients stream', async (t) => {
  const data = dataFolder();
  t.teardown(() => data.remove());
  const start = () => startScripted({ env: { MONOLITH_DATA_DIR: data.path }, models: ['tycho-1.0'] });
  const seen = new Map<string, object>();
  for (let round = 0; round < KILLS; round++) {
    const server = await start();
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
    const before = seen.size;
    const clients = Promise.allSettled(Array.from({ length: CLIENTS }, async (_, index) => {
      for (let previous: string | null = null; ;) {
        const request: OpenAI.Responses.ResponseCreateParamsNonStreaming = { model: 'tycho-1.0', input: `${'AHKS'[index % 4]}: go`, previous_response_id: index < 4 ? null : previous };
        const response: OpenAI.Responses.Response = index % 2 === 0 ? await client.responses.create(request) : await lastOf(await client.responses.create({ ...request, stream: true }));
        seen.set(response.id, response);
        previous = response.id;
      }
    }));
    await eventually(() => seen.size > before);
    await sleep(Math.random() * 500);
    server.process.kill('SIGKILL');
    await once(server.process, 'exit');
    await clients;
    t.ok(seen.size > before, `${seen.size - before} answers before kill ${round + 1}`);
  }

  const server = await start();
  t.teardown(() => server.stop());
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
  for (const [id, response] of seen) t.same(plain(await client.responses.retrieve(id)), plain(response));
  await inside(data.path, async (store) => {
    const heads = [...store.table<Head>('responses').range()];
    t.ok(heads.length >= seen.size);
    for (const table of ['response-resources', 'response-inputs', 'response-outputs'] satisfies TableName[]) {
      t.same([...store.table(table).keys()].map((key) => (typeof key === 'string' ? key : key[0])), heads.map(({ key }) => key), `${table}: one row for every response, and no other`);
    }
  });
});

async function lastOf(stream: AsyncIterable<OpenAI.Responses.ResponseStreamEvent>): Promise<OpenAI.Responses.Response> {
  for await (const event of stream) if (event.type === 'response.completed') return event.response;
  throw new Error('the stream ended without its end');
}

/** Without what the client adds to some. */
function plain(response: object): object {
  const { output_text: _, ...rest } = response as { output_text?: string };
  return rest;
}
