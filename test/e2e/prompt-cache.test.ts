// Tests the operator's view of the prompt cache on a real server: counts by tier, emptying the cache, pinned prompts
// (kept despite other prompts, emptying and a restart), diagnostics that name the tier, and erasure of pages together
// with their model or organization.
import { execFile } from 'node:child_process';
import { copyFileSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { openAccounts } from '../../src/storage/lmdb/accounts/directory.js';
import type { PinnedPromptRow } from '../../src/dashboard/admin/prompt-pin-store.js';
import type { PinnedPrompt, PromptCacheCleared, PromptCacheState } from '../../src/shared/wire/prompt-cache.js';
import { writeAdapter } from '../support/adapter-files.js';
import { embeddedModel, eventually, main, root, startMonolith, type Monolith } from './monolith.js';
import { openOwned } from '../support/owned-server.js';
import { dataFolder, inside, keyOf } from './stored-server.js';

t.setTimeout(600_000); // the machine may be busy

const PROMPT = Array.from({ length: 40 }, (_, i) => `Rule ${i}: after ${i} comes ${i + 1}.`).join(' ');
const TOKEN = 'operator-token-0123456789';
const ARGS = ['--threads', '1', '--kv-min-tokens', '64', '--admin-token', TOKEN];
const SECOND = `org_${'B'.repeat(24)}`;

const started = (
  folder: string,
  args: readonly string[] = ['--kv-disk', 'stored'],
  diskBytes = '64MiB',
): Promise<Monolith> =>
  startMonolith({
    args: [...ARGS, '--admin-port', '0', '--kv-disk-bytes', diskBytes, ...args],
    env: { MONOLITH_DATA_DIR: folder },
  });

const isReady = (server: Monolith): Promise<boolean> =>
  eventually(() => server.log().includes('KV pages on disk are available'));

interface Answer {
  id: string;
  input: number;
  cached: number;
  diagnostics: { type?: string; cache?: Record<string, unknown> };
}

async function respond(server: Monolith, body: Record<string, unknown>, key = server.key): Promise<Answer> {
  const response = await fetch(`${server.url}/v1/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'hal-1.0', temperature: 0, max_output_tokens: 16, ...body }),
  });
  const resource = (await response.json()) as {
    id: string;
    usage: { input_tokens: number; input_tokens_details: { cached_tokens: number } };
    prompt_cache_diagnostics?: Answer['diagnostics'];
  };
  if (response.status !== 200) throw new Error(JSON.stringify(resource));
  return {
    id: resource.id,
    input: resource.usage.input_tokens,
    cached: resource.usage.input_tokens_details.cached_tokens,
    diagnostics: resource.prompt_cache_diagnostics ?? {},
  };
}

interface Called<T> {
  status: number;
  body: T & { error?: { code: string; message: string; param: string | null } };
}

async function operator<T>(server: Monolith, method: string, path: string, body?: object): Promise<Called<T>> {
  const admin = /"url":"(http:[^"]*\/admin\/api)"/.exec(server.log())?.[1];
  const response = await fetch(`${admin}${path}`, {
    method,
    headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as Called<T>['body'] };
}

const stateOf = async (server: Monolith): Promise<PromptCacheState> =>
  (await operator<PromptCacheState>(server, 'GET', '/prompt-cache')).body;

async function command(folder: string, args: readonly string[]): Promise<{ code: number; out: string; err: string }> {
  const run = promisify(execFile)(process.execPath, [main, 'cache', ...args, '--data-dir', folder]);
  return run.then(
    ({ stdout, stderr }) => ({ code: 0, out: stdout, err: stderr }),
    (error: { code: number; stdout: string; stderr: string }) => ({
      code: error.code,
      out: error.stdout,
      err: error.stderr,
    }),
  );
}

/** Returns the bytes of pages on disk of one organization or, without `organization`, of all. */
const diskBytes = (state: PromptCacheState, organization?: string): number =>
  state.models
    .flatMap(({ disk, organizations }) =>
      organization === undefined ? [disk] : organizations.flatMap((one) => (one.id === organization ? [one.disk] : [])),
    )
    .reduce((sum, { bytes }) => sum + bytes, 0);

t.test('operators see tokens by tier, and empty the cache', async (t) => {
  const { path, remove } = dataFolder();
  t.teardown(remove);
  let server = await started(path);
  t.teardown(() => server.stop());
  t.ok(await isReady(server));
  const other = await keyOf(path, 'second');
  const first = await respond(server, { input: PROMPT });
  const again = await respond(server, { input: PROMPT });
  await respond(server, { input: PROMPT }, other);
  t.ok(again.cached > 0);
  t.ok(await eventually(async () => diskBytes(await stateOf(server), SECOND) > 0));
  const state = await stateOf(server);
  const [model] = state.models.filter(({ names }) => names.includes('hal-1.0'));
  t.match(state, { object: 'prompt_cache', disk: { mode: 'stored' }, pinned: [], max_pinned: 16 });
  t.equal(model!.use.requests, 3);
  t.equal(model!.use.prompt_tokens, 3 * first.input);
  t.equal(model!.use.memory_tokens, again.cached);
  t.equal(model!.use.disk_tokens, 0);
  t.ok(model!.use.written_bytes > 0);
  t.ok((model!.memory?.cached_pages ?? 0) > 0);
  t.match(
    model!.organizations.find(({ id }) => id === SECOND),
    { name: 'Second', use: { requests: 1, memory_tokens: 0, prompt_tokens: first.input } },
  );
  const shown = await command(path, []);
  t.equal(shown.code, 0, shown.err);
  t.match(shown.out, /^hal-1\.0 +\d+ of \d+ /m);
  t.match(shown.out, /^Pinned prompts: 0 of 16$/m);
  t.match(shown.out, new RegExp(`${again.cached} \\(\\d+ %\\)`));
  t.ok(
    await eventually(
      async () =>
        (await server.metrics()).get('monolith_prompt_cache_tokens_total{model="hal-1.0",source="memory"}') ===
        again.cached,
    ),
  );

  const one = await operator<PromptCacheCleared>(
    server,
    'DELETE',
    `/prompt-cache?organization=${SECOND}&model=hal-1.0`,
  );
  t.match(one, { status: 200, body: { object: 'prompt_cache.cleared' } });
  t.same(one.body.models, ['hal-1.0']);
  t.ok(one.body.disk_records > 0);
  t.equal(diskBytes(await stateOf(server), SECOND), 0);
  t.ok(diskBytes(await stateOf(server)) > 0, 'the other organization keeps its pages');
  t.ok((await respond(server, { input: PROMPT })).cached > 0);
  t.equal((await respond(server, { input: PROMPT }, other)).cached, 0, 'memory was emptied too');
  const all = await command(path, ['clear', '--json']);
  t.equal(all.code, 0, all.err);
  t.match(JSON.parse(all.out), { object: 'prompt_cache.cleared' });
  const cold = await respond(server, {
    input: PROMPT,
    prompt_cache_options: { comparison_response_id: first.id },
  });
  t.equal(cold.cached, 0);
  t.match(cold.diagnostics, {
    type: 'unavailable',
    cache: { memory_tokens: 0, disk_tokens: 0, disk_miss: { reason: 'erased', at: Number } },
  });
  for (const [query, status] of [
    ['model=none', 404],
    ['organization=org_none', 404],
    ['model=', 400],
  ] as const)
    t.equal((await operator(server, 'DELETE', `/prompt-cache?${query}`)).status, status);

  // After a restart, the prefix is read from disk.
  t.ok(await eventually(async () => diskBytes(await stateOf(server)) > 0));
  await server.stop();
  server = await started(path);
  t.ok(await isReady(server));
  await respond(server, { input: 'Something else, which is short.' });
  const fromDisk = await respond(server, { input: PROMPT });
  t.ok(fromDisk.cached > 0);
  const compared = await respond(server, {
    input: PROMPT,
    prompt_cache_options: { comparison_response_id: fromDisk.id },
  });
  t.match(compared.diagnostics, {
    type: 'cache_hit',
    cache: { memory_tokens: compared.cached, disk_tokens: 0, disk_miss: null },
  });
  const use = (await stateOf(server)).models.find(({ names }) => names.includes('hal-1.0'))!.use;
  t.equal(use.disk_tokens, fromDisk.cached);
  t.ok(use.read_bytes > 0);
});

t.test('a pinned prompt survives other prompts, emptying and a restart', async (t) => {
  const { path, remove } = dataFolder();
  t.teardown(remove);
  const args = ['--kv-disk', 'stored', '--engine-kv-bytes', '64MiB', '--kv-max-pinned', '2'];
  let server = await started(path, args);
  t.teardown(() => server.stop());
  t.ok(await isReady(server));
  const other = await keyOf(path, 'second');
  const file = join(path, 'system.txt');
  writeFileSync(file, `${PROMPT}\n`);
  const warmed = await command(path, ['warm', '--model', 'hal-1.0', '--file', file, '--organization', 'Second']);
  t.equal(warmed.code, 0, warmed.err);
  const id = /^(pin_\w+) {2}pinned: (\d+) tokens for Second/.exec(warmed.out);
  t.ok(id, warmed.out);
  const pinnedTokens = Number(id?.[2]);
  const ask = (key: string): Promise<Answer> =>
    respond(server, { instructions: PROMPT, input: `Number ${Math.random()}?`, store: false }, key);
  t.ok((await ask(other)).cached >= pinnedTokens);
  t.equal((await ask(server.key)).cached, 0, 'another organization');

  const pages = (await stateOf(server)).models[0]!.memory!.pages;
  for (let i = 0; i < 2 + pages / (first(await respond(server, { input: `${i} ${PROMPT}` })) / 16); i++)
    await respond(server, { input: `${i}. ${PROMPT} ${PROMPT.slice(i)}`, store: false });
  t.ok((await ask(other)).cached >= pinnedTokens, 'other prompts have not evicted it');
  t.equal((await command(path, ['clear'])).code, 0);
  t.ok((await ask(other)).cached >= pinnedTokens, 'emptying has left it');
  t.match((await stateOf(server)).pinned, [
    { id: id![1], organization: SECOND, organization_name: 'Second', tokens: pinnedTokens, state: 'pinned' },
  ]);

  await server.stop();
  server = await started(path, args);
  t.ok(await eventually(async () => (await stateOf(server)).pinned[0]?.state === 'pinned'));
  t.ok((await ask(other)).cached >= pinnedTokens, 'after a restart');
  t.match(await command(path, ['status']), { code: 0, out: /pin_\w+ +hal-1\.0 +Second +\d+ +pinned +Rule 0/ });

  const same = await operator<PinnedPrompt>(server, 'POST', '/prompt-cache/pinned', {
    model: 'hal-1.0',
    organization: SECOND,
    prompt: PROMPT,
  });
  t.match(same, { status: 200, body: { id: id![1] } }, 'pinning it again changes nothing');
  const own = await operator<PinnedPrompt>(server, 'POST', '/prompt-cache/pinned', {
    model: 'hal-1.0',
    prompt: PROMPT,
  });
  t.match(own, { status: 200, body: { state: 'pinned', tokens: pinnedTokens } });
  t.not(own.body.organization, SECOND, "by default, the server's first organization");
  t.ok((await ask(server.key)).cached >= pinnedTokens);
  for (const [body, status, message] of [
    [{ model: 'hal-1.0', prompt: `${PROMPT}.` }, 422, /2 prompts are pinned, the maximum/],
    [{ model: 'none', prompt: PROMPT }, 404, /none/],
    [{ model: 'hal-1.0', prompt: PROMPT, organization: 'nobody' }, 404, /Organization not found/],
    [{ model: 'hal-1.0' }, 422, /prompt/],
  ] as const) {
    const refused = await operator(server, 'POST', '/prompt-cache/pinned', body);
    t.equal(refused.status, status, JSON.stringify(refused.body));
    t.match(refused.body.error?.message, message);
  }
  t.match(await command(path, ['unpin', own.body.id]), { code: 0 });
  const short = await operator(server, 'POST', '/prompt-cache/pinned', { model: 'hal-1.0', prompt: 'Be brief.' });
  t.match(short.body.error?.message, /More than 64 are required/);
  t.equal((await operator(server, 'DELETE', `/prompt-cache/pinned/${id![1]}`)).status, 200);
  t.equal((await operator(server, 'DELETE', `/prompt-cache/pinned/${id![1]}`)).status, 404);
  const after = await stateOf(server);
  t.same(after.pinned, []);
  t.equal(diskBytes(after, SECOND), 0, 'its pages are erased');
});

const first = ({ input }: Answer): number => input;

t.test('a request with tools, and a prompt of an adapter, are pinned', async (t) => {
  const { path, remove } = dataFolder();
  t.teardown(remove);
  writeAdapter(join(path, 'one.gguf'), { seed: 1 });
  const args = [
    ...['--kv-disk', 'stored', '--engine-kv-bytes', '64MiB', '--model', `base=${embeddedModel}`],
    ...['--adapter', `base:one=${join(path, 'one.gguf')}`],
  ];
  let server = await started(path, args);
  t.teardown(() => server.stop());
  t.ok(await isReady(server));
  const tool = (name: string): object => ({
    type: 'function',
    function: { name, parameters: { type: 'object', properties: { city: { type: 'string' } } } },
  });
  const shared = { messages: [{ role: 'system', content: PROMPT }], tools: [tool('weather'), tool('time')] };
  const file = join(path, 'request.json');
  writeFileSync(file, JSON.stringify({ model: 'base', ...shared }));
  const warmed = await command(path, ['warm', '--model', 'base', '--request', file]);
  t.equal(warmed.code, 0, warmed.err);
  const pinned = Number(/pinned: (\d+) tokens/.exec(warmed.out)?.[1]);
  const chat = async (model: string, { messages, ...more }: { messages: object[] }): Promise<number> => {
    const response = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        ...{ model, ...more, max_tokens: 1, store: false },
        messages: [...messages, { role: 'user', content: `Number ${Math.random()}?` }],
      }),
    });
    const { usage } = (await response.json()) as { usage: { prompt_tokens_details: { cached_tokens: number } } };
    return usage.prompt_tokens_details.cached_tokens;
  };
  t.ok((await chat('base', shared)) >= pinned);
  t.ok((await chat('base', { ...shared, tools: [tool('weather')] } as never)) < pinned, 'other tools');
  t.equal(await chat('base:one', shared), 0, 'an adapter has pages of its own');

  const own = await operator<PinnedPrompt>(server, 'POST', '/prompt-cache/pinned', {
    model: 'base:one',
    prompt: PROMPT,
  });
  t.match(own, { status: 200, body: { model: 'base:one', state: 'pinned', tools: 0 } });
  const plain = { messages: shared.messages };
  t.ok((await chat('base:one', plain)) >= own.body.tokens!);
  t.ok((await chat('base', plain)) < own.body.tokens!, 'the model has no pages of its adapter');
  t.match(await command(path, ['status']), { code: 0, out: /Rule 0.* \(2 tools\)/ });

  await server.stop();
  server = await started(path, args);
  t.ok(await eventually(async () => (await stateOf(server)).pinned.every(({ state }) => state === 'pinned')));
  t.ok((await chat('base', shared)) >= pinned, 'after a restart');
  t.ok((await chat('base:one', plain)) >= own.body.tokens!, 'after a restart');
  t.match(
    (await stateOf(server)).pinned.map(({ tools }) => tools),
    [2, 0],
  );
  const { messages } = shared;
  const user = { role: 'user', content: 'Hi' };
  const image = { role: 'system', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }] };
  for (const [body, message, param] of [
    [{ request: { ...shared, temperature: 1 } }, /request\.temperature cannot be pinned/, 'request.temperature'],
    [{ request: { ...shared, n: 2 } }, /request\.n cannot be pinned/, 'request.n'],
    [{ request: { ...shared, model: 'other' } }, /must be the model/, 'request.model'],
    [{ request: { messages: [...messages, user] } }, /messages\[1\] must have the role/, 'request.messages[1].role'],
    [{ request: { messages: [image] } }, /content\[0\] must be text/, 'request.messages[0].content[0].type'],
    [{ request: { ...shared, tools: [{ type: 'function' }] } }, /function/, 'request.tools[0].function'],
    [{ request: { ...shared, messages: 'x' } }, /messages/, 'request.messages'],
    [{ request: shared, prompt: PROMPT }, /Exactly one/, 'prompt'],
    [{}, /Exactly one/, 'prompt'],
  ] as const) {
    const refused = await operator(server, 'POST', '/prompt-cache/pinned', { model: 'base', ...body });
    t.match(refused.body.error, { message, param }, JSON.stringify(refused.body));
  }
  t.equal((await stateOf(server)).pinned.length, 2);
});

t.test('without pages on disk, prompts cannot be pinned, and memory can be emptied', async (t) => {
  const { path, remove } = dataFolder();
  t.teardown(remove);
  t.match(await command(path, []), { code: 1, err: /no server uses/ });
  const server = await started(path, ['--kv-disk', 'off']);
  t.teardown(() => server.stop());
  await respond(server, { input: PROMPT });
  t.ok((await respond(server, { input: PROMPT })).cached > 0);
  t.match(await command(path, ['clear', '--model', 'hal-1.0']), { code: 0, out: /emptied in memory: hal-1.0/ });
  t.equal((await respond(server, { input: PROMPT })).cached, 0);
  t.match(await stateOf(server), { disk: null, pinned: [], max_pinned: 0 });
  t.match(await operator(server, 'POST', '/prompt-cache/pinned', { model: 'hal-1.0', prompt: PROMPT }), {
    status: 422,
    body: { error: { message: /kv\.disk/ } },
  });
  for (const [args, message] of [
    [['what'], /expected status, clear, warm or unpin/],
    [['warm', '--file', 'x'], /needs a model/],
    [['warm', '--model', 'hal-1.0'], /needs a file/],
    [['warm', '--model', 'hal-1.0', '--file', 'x', '--request', 'y'], /needs a file/],
    [['warm', '--model', 'hal-1.0', '--request', main], /is not JSON/],
    [['clear', '--request', 'x'], /clear has no flag --request/],
    [['warm', '--model', 'hal-1.0', '--file', join(path, 'none')], /ENOENT/],
    [['unpin'], /needs the ID/],
    [['clear', '--file', 'x'], /no flag --file/],
  ] as const)
    t.match(await command(path, args), { code: 2, err: message });
});

t.test('pages leave with their model, but not when it is unloaded', async (t) => {
  const { path, remove } = dataFolder();
  t.teardown(remove);
  const models = mkdtempSync(join(tmpdir(), 'models-'));
  t.teardown(() => rmSync(models, { recursive: true, force: true }));
  const file = join(models, 'own.gguf');
  copyFileSync(join(root, 'models', 'hal-1.0-q8_0.gguf'), file);
  const args = ['--kv-disk', 'stored', '--model', `own=${file}`];
  const erased = async (): Promise<number> =>
    (await server.metrics()).get('monolith_kv_disk_pages_total{event="erased"}') ?? 0;
  const ask = (): Promise<Answer> => respond(server, { model: 'own', input: PROMPT });
  let server = await started(path, args);
  t.teardown(() => server.stop());
  t.ok(await isReady(server));
  await ask();
  t.ok(await eventually(async () => diskBytes(await stateOf(server)) > 0));

  t.equal((await operator(server, 'POST', '/models/own/drain')).status, 200);
  t.ok(await eventually(async () => (await stateOf(server)).models[0]?.memory === null));
  await new Promise((done) => setTimeout(done, 11_000)); // the tier's worker checks for removed files every ten seconds
  t.ok(diskBytes(await stateOf(server)) > 0, 'unloading keeps the pages');
  t.equal(await erased(), 0);
  t.equal((await operator(server, 'POST', '/models/own/load')).status, 200);
  t.ok(await eventually(async () => (await stateOf(server)).models[0]?.memory !== null));
  t.ok((await ask()).cached > 0);
  await server.stop();

  // A new model file replaces the old one under the same path. The old model's pages are erased after the new file has
  // been hashed.
  copyFileSync(join(root, 'models', 'tycho-1.0-q8_0.gguf'), join(models, 'new'));
  renameSync(join(models, 'new'), file);
  server = await started(path, args);
  t.ok(await isReady(server));
  t.ok(await eventually(async () => (await erased()) > 0));
  t.equal(diskBytes(await stateOf(server)), 0);
  await ask();
  t.ok(await eventually(async () => diskBytes(await stateOf(server)) > 0));

  rmSync(file); // `monolith rm` and DELETE /disk remove the file in the same way
  t.ok(await eventually(async () => diskBytes(await stateOf(server)) === 0, 20_000));
  const left = (): string[] => readdirSync(join(path, 'kv-pages')).filter((name) => name.endsWith('.pages'));
  t.ok(await eventually(() => left().length === 0), 'the empty files are removed'); // after their pages are erased
});

t.test('deleting an organization erases its pages and its pinned prompts within ten seconds', async (t) => {
  const { path, remove } = dataFolder();
  t.teardown(remove);
  const server = await started(path);
  t.teardown(() => server.stop());
  t.ok(await isReady(server));
  const other = await keyOf(path, 'second');
  await respond(server, { input: PROMPT }, other);
  await respond(server, { input: PROMPT });
  const pin = { model: 'hal-1.0', organization: SECOND, prompt: `${PROMPT} Stay calm.` };
  t.equal((await operator(server, 'POST', '/prompt-cache/pinned', pin)).status, 200);
  t.ok(await eventually(async () => diskBytes(await stateOf(server), SECOND) > 0));
  // Another process deletes the organization, and does not notify this server.
  await inside(path, async (store) => {
    const accounts = openAccounts(store);
    await accounts.organizations.delete(SECOND, { type: 'command_line', id: null, email: null, ip: null });
    await accounts.close();
  });
  t.ok(await eventually(async () => diskBytes(await stateOf(server), SECOND) === 0, 10_000));
  t.ok(await eventually(async () => (await stateOf(server)).pinned.length === 0, 10_000));
  t.ok(diskBytes(await stateOf(server)) > 0, 'the other organization keeps its pages');
});

t.test('a pinned prompt that cannot be read is listed, and can be unpinned', async (t) => {
  const { path, remove } = dataFolder();
  t.teardown(remove);
  let server = await started(path);
  t.teardown(() => server.stop());
  t.ok(await isReady(server));
  const pin = { model: 'hal-1.0', prompt: PROMPT };
  const pinned = await operator<PinnedPrompt>(server, 'POST', '/prompt-cache/pinned', pin);
  t.equal(pinned.status, 200);
  const { id } = pinned.body;
  await server.stop();
  await inside(path, async (store) => {
    const rows = store.table<PinnedPromptRow>('prompt-pins');
    const row = rows.get(id)!;
    await store.transaction(
      () => void rows.put(id, { ...row, sealedPrompt: `${row.sealedPrompt.slice(0, -8)}AAAAAAAA` }),
    );
  });
  server = await started(path);
  t.ok(await isReady(server));
  const state = await stateOf(server);
  t.match(state.pinned, [{ id, start: '', state: 'failed', problem: /cannot be read/ }]);
  t.ok(diskBytes(state) > 0);
  t.match(await command(path, ['unpin', id]), { code: 0, out: /failed/ });
  const after = await stateOf(server);
  t.same(after.pinned, []);
  t.equal(diskBytes(after), 0);
});

t.test('less disk space is enforced at the next start', async (t) => {
  const { path, remove } = dataFolder();
  t.teardown(remove);
  const size = (): number =>
    readdirSync(join(path, 'kv-pages'))
      .filter((name) => name.endsWith('.pages'))
      .reduce((sum, name) => sum + statSync(join(path, 'kv-pages', name)).size, 0);
  let server = await started(path);
  t.teardown(() => server.stop());
  t.ok(await isReady(server));
  for (let i = 0; i < 4; i++) await respond(server, { input: `${i} ${PROMPT}` });
  await server.stop();
  const before = size();
  const less = Math.floor(before / 2);
  server = await started(path, ['--kv-disk', 'stored'], String(less));
  t.ok(size() <= less && size() > 0, `${size()} of ${before} bytes`);
});

t.test('every HTTP worker serves the prompt cache to operators', async (t) => {
  const owned = await openOwned({ args: ['--http-threads', '2', '--kv-disk', 'stored', '--kv-min-tokens', '64'] });
  t.teardown(() => owned.close());
  const { owner, server, organization } = owned;
  t.ok(await isReady(server));
  for (let i = 0; i < 4; i++)
    t.match(await owner.get('/operator/prompt-cache'), { object: 'prompt_cache', disk: { mode: 'stored' } });
  const pins: PinnedPrompt[] = [];
  for (let i = 0; i < 2; i++)
    pins.push(
      await owner.post<PinnedPrompt>('/operator/prompt-cache/pinned', {
        model: 'hal-1.0',
        organization: organization.id,
        prompt: `${i} ${PROMPT}`,
      }),
    );
  t.same(new Set(pins.map(({ state }) => state)), new Set(['pinned']));
  const asked = owner.post('/operator/prompt-cache/pinned', { model: 'none', prompt: PROMPT });
  await t.rejects(asked, { code: 'model_not_found' });
  t.equal((await owner.get<PromptCacheState>('/operator/prompt-cache')).pinned.length, 2);
});
