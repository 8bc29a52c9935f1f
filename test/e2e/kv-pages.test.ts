// Tests KV pages on disk: a stored response can be continued after a restart, after kill -9 and after its model was
// unloaded, without computing its prompt again, and the output is the same as without the tier. Deleting a response
// erases its pages. Other organizations never use these pages.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { once } from 'node:events';
import t from 'tap';
import { eventually, startMonolith, type Monolith } from './monolith.js';
import { dataFolder, keyOf } from './stored-server.js';

t.setTimeout(600_000); // the machine may be busy

const PROMPT = Array.from({ length: 60 }, (_, i) => `Fact ${i}: the number after ${i} is ${i + 1}.`).join(' ');

interface Answer {
  id: string;
  text: string;
  input: number;
  cached: number;
}

async function answer(server: Monolith, body: Record<string, unknown>, key = server.key): Promise<Answer> {
  const response = await fetch(`${server.url}/v1/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'hal-1.0', temperature: 0, max_output_tokens: 40, ...body }),
  });
  const resource = (await response.json()) as {
    id: string;
    output: { content?: { text?: string }[] }[];
    usage: { input_tokens: number; input_tokens_details: { cached_tokens: number } };
  };
  if (response.status !== 200) throw new Error(JSON.stringify(resource));
  return {
    id: resource.id,
    text: resource.output.map((item) => item.content?.map((part) => part.text).join('') ?? '').join('\n'),
    input: resource.usage.input_tokens,
    cached: resource.usage.input_tokens_details.cached_tokens,
  };
}

const ARGS = ['--threads', '1', '--kv-min-tokens', '64', '--kv-disk-bytes', '64MiB'];
type Disk = 'stored' | 'off';

const started = (folder: string, disk: Disk = 'stored'): Promise<Monolith> =>
  startMonolith({ args: [...ARGS, '--kv-disk', disk], env: { MONOLITH_DATA_DIR: folder } });

const metric = async (server: Monolith, name: string): Promise<number> => (await server.metrics()).get(name) ?? 0;
const WRITTEN = 'monolith_kv_disk_pages_total{event="written"}';

/** Waits until the model's files have been hashed. */
const isReady = (server: Monolith): Promise<boolean> =>
  eventually(() => server.log().includes('KV pages on disk are available'));

/** Waits until the pages of the last response are on disk. */
async function isWritten(server: Monolith): Promise<boolean> {
  let before = -1;
  return eventually(async () => {
    const now = await metric(server, WRITTEN);
    await new Promise((done) => setTimeout(done, 2_200));
    const settled = now > 0 && now === before;
    before = now;
    return settled;
  });
}

t.test('a stored response is continued after a restart without computing its prompt', async (t) => {
  const { path, remove } = dataFolder();
  t.teardown(remove);
  let server = await started(path);
  t.ok(await isReady(server));
  const first = await answer(server, { input: PROMPT });
  t.equal(first.cached, 0);
  await server.stop(); // writes the remaining pages
  t.ok(readdirSync(join(path, 'kv-pages')).some((name) => name.endsWith('.pages')));

  server = await started(path);
  t.ok(await isReady(server));
  const follow = { input: 'And after 60?', previous_response_id: first.id };
  const next = await answer(server, follow);
  t.ok(next.cached >= Math.floor((first.input - 1) / 16) * 16, `${next.cached} of ${next.input} tokens are cached`);
  const fromDisk = (): Promise<number> => metric(server, 'monolith_kv_disk_tokens_total');
  t.ok(await eventually(async () => (await fromDisk()) === next.cached));
  const again = await answer(server, { ...follow, input: 'And after 61?' });
  t.ok(again.cached >= next.cached);
  await new Promise((done) => setTimeout(done, 2_200)); // the metrics are updated every two seconds
  t.equal(await fromDisk(), next.cached, 'now the pages are in memory');
  const other = await keyOf(path, 'second');
  t.equal((await answer(server, { input: PROMPT }, other)).cached, 0, 'another organization');
  await server.stop();

  const without = await started(path, 'off');
  const expected = await answer(without, follow);
  t.equal(expected.cached, 0);
  t.equal(next.text, expected.text, 'the same answer as without pages from disk');
  t.notOk(existsSync(join(path, 'kv-pages')), 'turning the tier off erases all pages');
  await without.stop();
});

t.test('pages survive kill -9, and deleting the response erases them', async (t) => {
  const { path, remove } = dataFolder();
  t.teardown(remove);
  let server = await started(path);
  t.ok(await isReady(server));
  const first = await answer(server, { input: PROMPT });
  const second = await answer(server, { input: `${PROMPT.slice(0, PROMPT.length >> 1)} And so on.` });
  t.ok(await isWritten(server));
  const exited = once(server.process, 'exit');
  server.process.kill('SIGKILL');
  await exited;

  server = await started(path);
  t.ok(await isReady(server));
  const next = await answer(server, { input: 'And after 60?', previous_response_id: first.id, store: false });
  t.ok(next.cached >= Math.floor((first.input - 1) / 16) * 16, `${next.cached} of ${next.input}`);
  const remove1 = async (id: string): Promise<void> => {
    const { status } = await fetch(`${server.url}/v1/responses/${id}`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${server.key}` },
    });
    t.equal(status, 200);
  };
  const pages = (): string[] => readdirSync(join(path, 'kv-pages')).filter((name) => name.endsWith('.pages'));
  await remove1(first.id);
  t.ok(
    await eventually(async () => (await metric(server, 'monolith_kv_disk_pages_total{event="erased"}')) > 0, 10_000),
  );
  t.not(pages().length, 0, 'the other response needs the common pages');
  await remove1(second.id);
  t.ok(await eventually(() => pages().length === 0, 10_000));
  await server.stop();
});

t.test('requests that store nothing are kept with prompt_cache_retention 24h only', async (t) => {
  const { path, remove } = dataFolder();
  t.teardown(remove);
  let server = await started(path);
  t.ok(await isReady(server));
  await answer(server, { input: PROMPT, store: false });
  await server.stop();
  t.notOk(readdirSync(join(path, 'kv-pages')).some((name) => name.endsWith('.pages')));
  server = await started(path);
  t.ok(await isReady(server));
  await answer(server, { input: PROMPT, store: false, prompt_cache_retention: '24h' });
  await server.stop();
  server = await started(path);
  t.ok(await isReady(server));
  const again = await answer(server, { input: PROMPT, store: false });
  t.ok(again.cached > 0, `${again.cached} of ${again.input}`);
  await server.stop();
});

t.test('with kv.disk off, there are no files', async (t) => {
  const { path, remove } = dataFolder();
  t.teardown(remove);
  const server = await started(path, 'off');
  await answer(server, { input: PROMPT });
  await server.stop();
  t.notOk(existsSync(join(path, 'kv-pages')));
});
