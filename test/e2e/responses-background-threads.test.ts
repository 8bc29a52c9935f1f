// Tests background responses on a server with two HTTP workers: every worker must report the same events and the same
// terminal event.
import { once } from 'node:events';
import OpenAI from 'openai';
import t from 'tap';
import { startScripted } from '../support/script-model.js';
import { events } from '../support/wire.js';
import { eventually } from './monolith.js';
import { dataFolder, inside } from './stored-server.js';

t.setTimeout(300_000); // the machine may be busy

const data = dataFolder();
const settings = {
  args: ['--http-threads', '2'],
  env: { MONOLITH_DATA_DIR: data.path },
  models: ['tycho-1.0' as const],
};
let server = await startScripted(settings);
t.teardown(async () => {
  await server.stop();
  data.remove();
});
const create = async (): Promise<string> => {
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
  return (
    await client.responses.create({
      model: 'tycho-1.0',
      input: 'L: tell me',
      background: true,
      max_output_tokens: 16_000,
    })
  ).id;
};
/** Uses a new connection for each request, so that requests reach both HTTP workers. */
const ask = (path: string, method = 'GET') =>
  fetch(`${server.url}/v1/responses/${path}`, {
    method,
    headers: { authorization: `Bearer ${server.key}`, connection: 'close' },
  });
const ofLength = (id: string, count: number) =>
  inside(data.path, async (store) => {
    await eventually(
      () => [...store.table('response-events').keys({ from: [id, count], to: [id, Infinity], limit: 1 })].length > 0,
    );
  });

t.test('deleting a running background response ends the stream of every reader with the same event', async (t) => {
  const id = await create();
  await ofLength(id, 3_000);
  const following = await Promise.all(
    Array.from({ length: 8 }, (_, at) => ask(`${id}?stream=true&starting_after=${at * 300}`)),
  );
  const deleted = ask(id, 'DELETE');
  const ends = await Promise.all(following.map(async (response) => (await events(response)).slice(-2)));
  t.equal((await deleted).status, 200);
  t.match(ends[0], [{ event: 'response.incomplete', data: /"status":"cancelled"/ }, { data: '[DONE]' }]);
  for (const end of ends) t.same(end, ends[0]);
});

t.test('every replay after a crash has the same events, including all that readers saw before', async (t) => {
  const id = await create();
  const following = Array.from({ length: 4 }, async () => {
    const seen: string[] = [];
    const decoder = new TextDecoder();
    try {
      for await (const part of (await ask(`${id}?stream=true`)).body!)
        seen.push(decoder.decode(part as Uint8Array, { stream: true }));
    } catch {
      // the crash closed the connection
    }
    return seen
      .join('')
      .split('\n')
      .slice(0, -1)
      .filter((line) => line.startsWith('data: '))
      .map((line) => line.slice(6));
  });
  await ofLength(id, 600);
  server.process.kill('SIGKILL');
  await once(server.process, 'exit');
  const seen = await Promise.all(following);
  server = await startScripted(settings);
  const replays = await Promise.all(Array.from({ length: 4 }, async () => events(await ask(`${id}?stream=true`))));
  const told = replays[0]!.map(({ data: text }) => text);
  t.same(
    replays[0]!.slice(-3).map(({ event, data: text }) => event ?? text),
    ['error', 'response.failed', '[DONE]'],
  );
  for (const replay of replays)
    t.same(
      replay.map(({ data: text }) => text),
      told,
    );
  t.ok(
    seen.every((one) => one.length > 100),
    'every reader received more than 100 events',
  );
  for (const one of seen)
    t.ok(
      one.every((text) => told.includes(text)),
      'the replay contains every event that a reader received',
    );
});
