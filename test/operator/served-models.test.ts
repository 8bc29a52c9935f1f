// Tests serving a downloaded model without a restart, with one and with several HTTP workers. An operator or the
// command line adds the model under a new name. The model is kept across restarts, removed while requests are running,
// or refused with a reason.

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { LmdbAuditLog } from '../../src/storage/lmdb/accounts/audit-log.js';
import type { FileFact } from '../../src/engine/file-facts.js';
import { LmdbServedModels } from '../../src/storage/lmdb/dashboard/served-models.js';
import { MAX_SERVED, serveFetched } from '../../src/dashboard/admin/serve-fetched.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import type { ModelPull } from '../../src/shared/wire/models.js';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { DiskState, OperatorModel } from '../../src/shared/wire/models.js';
import type { AuditEntry } from '../../src/shared/wire/organizations.js';
import { adapterModel } from '../../src/engine/adapters.js';
import { modelOfFile } from '../../src/engine/catalog.js';
import { ModelPool } from '../../src/engine/model-pool.js';
import type { FileFacts } from '../../src/engine/file-facts.js';
import { DynamicModels } from '../../src/dashboard/admin/dynamic-models.js';
import { LocalBus } from '../../src/shared/bus.js';
import type { Log } from '../../src/telemetry/types.js';
import { loadOptions } from '../addon/starter.js';
import { eventually, main } from '../e2e/monolith.js';
import { refusal } from '../support/dashboard-client.js';
import { startHub } from '../support/hub-server.js';
import { openOwned } from '../support/owned-server.js';
import { writeScriptModel } from '../support/script-model.js';

t.setTimeout(300_000);

const folder = mkdtempSync(join(tmpdir(), 'monolith-served-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));
writeScriptModel(join(folder, 'script.gguf'));
const script = readFileSync(join(folder, 'script.gguf'));
// The same file with an unknown architecture name of the same length.
const strange = Buffer.from(script);
for (let at = strange.indexOf('llama'); at >= 0; at = strange.indexOf('llama', at)) strange.write('xlama', at);

for (const threads of [1, 2]) {
  t.test(`a downloaded model is served and removed with ${threads} HTTP worker${threads > 1 ? 's' : ''}`, async (t) => {
    const hub = await startHub({
      'acme/Tiny-GGUF': { files: { 'tiny-F16.gguf': script } },
      'acme/strange-GGUF': { files: { 'strange-F16.gguf': strange } },
    });
    t.teardown(() => hub.close());
    const home = join(folder, String(threads));
    const env = {
      HF_ENDPOINT: hub.endpoint,
      HF_HUB_CACHE: join(home, 'hub'),
      MONOLITH_DATA_DIR: join(home, 'data'),
      MONOLITH_HTTP_THREADS: String(threads),
      MONOLITH_MODELS: JSON.stringify({ aliases: { 'gpt-4o': 'mine' } }),
    };
    const owned = await openOwned({ env, models: ['mine'] });
    t.teardown(() => owned.close());
    const { owner, server } = owned;
    const models = async (): Promise<OperatorModel[]> =>
      (await owner.get<ListPage<OperatorModel>>('/operator/models')).data;
    const ask = (url: string, model: string, content: string, more: object = {}): Promise<Response> =>
      fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${server.key}` },
        body: JSON.stringify({ model, reasoning_effort: 'none', messages: [{ role: 'user', content }], ...more }),
      });
    const fetched = async (model: string): Promise<void> => {
      const { id } = await owner.post<ModelPull>('/operator/pulls', { model });
      t.ok(
        await eventually(
          async () =>
            (await owner.get<DiskState>('/operator/disk')).pulls.find((one) => one.id === id)?.state === 'done',
        ),
        `${model} is downloaded`,
      );
    };
    const serve = (name: string, model: string): Promise<OperatorModel> =>
      owner.post('/operator/models', { name, model });

    t.match(await refusal(serve('tiny', 'acme/Tiny-GGUF')), {
      status: 422,
      code: 'invalid_value',
      param: 'model',
      message: /not on this machine's disk.*Download it first \(monolith pull acme\/Tiny-GGUF\)/,
    });
    await Promise.all([fetched('acme/Tiny-GGUF'), fetched('acme/strange-GGUF')]);
    t.match(await refusal(serve('tiny', 'Tiny')), { status: 422, param: 'model', message: /is not a model reference/ });
    t.match(
      await refusal(serve('strange', 'acme/strange-GGUF')),
      { status: 422, param: 'model', message: /xlama/ },
      'the error names the unknown architecture',
    );
    for (const [name, why] of [
      ['mine', /already/],
      ['gpt-4o', /an alias/],
      ['hal-1.0', /comes with Monolith/],
      ['a b', /letters, digits/],
    ] as const) {
      t.match(await refusal(serve(name, 'acme/Tiny-GGUF')), { status: 422, param: 'name', message: why }, name);
    }
    const member = owned.client();
    await member.signUp({ email: 'plain@example.com' });
    for (const refused of await Promise.all(
      [
        member.post('/operator/models', { name: 'x', model: 'acme/Tiny-GGUF' }),
        member.delete('/operator/models/mine'),
      ].map(refusal),
    ))
      t.match(refused, { status: 403, code: 'role_not_allowed' });
    t.match(await refusal(owner.delete('/operator/models/mine')), { status: 422, message: /is a configured model/ });

    t.match(await serve('tiny', 'acme/Tiny-GGUF'), { id: 'tiny', source: 'acme/Tiny-GGUF:F16', state: 'idle' });
    t.match((await owner.get<ListPage<AuditEntry>>('/operator/audit-log')).data[0], {
      action: 'model.served',
      target: 'tiny',
      detail: { model: 'acme/Tiny-GGUF:F16' },
    });
    t.match(await refusal(serve('tiny', 'acme/Tiny-GGUF')), { status: 422, message: /already/ });
    t.match(
      (await owner.get<DiskState>('/operator/disk')).models.find(({ model }) => model === 'acme/Tiny-GGUF:F16'),
      { served_as: 'tiny' },
    );
    const answers = await Promise.all(Array.from({ length: 8 }, () => ask(server.url, 'tiny', 'W: x')));
    t.same(
      answers.map(({ status }) => status),
      Array<number>(8).fill(200),
      'requests on every HTTP worker wait for the load',
    );
    for (const answer of answers) await answer.text();
    t.match(
      (await models()).find(({ id }) => id === 'tiny'),
      { state: 'ready', architecture: 'llama' },
    );

    const story = await ask(server.url, 'tiny', 'L: on', { stream: true, max_tokens: 3_000 });
    const reader = story.body!.getReader();
    await reader.read();
    await owner.delete('/operator/models/tiny');
    for (let again = 0; again < 4; again++)
      t.match(await (await ask(server.url, 'tiny', 'A')).json(), { error: { code: 'model_not_found' } });
    t.notMatch(
      (await models()).map(({ id }) => id),
      ['tiny'],
    );
    let rest = '';
    for (let next = await reader.read(); !next.done; next = await reader.read())
      rest += Buffer.from(next.value).toString();
    t.match(rest, /"finish_reason":"length"[\s\S]*\[DONE\]/, 'the running response is completed');
    t.equal(rest.match(/"content":/g)!.length > 2_000, true);
    t.match((await owner.get<ListPage<AuditEntry>>('/operator/audit-log')).data[0], {
      action: 'model.unserved',
      target: 'tiny',
    });

    await serve('tiny', 'acme/Tiny-GGUF:F16');
    await owner.post('/operator/models/tiny/load');
    t.ok(
      await eventually(async () => (await models()).find(({ id }) => id === 'tiny')?.state === 'ready'),
      'the model is loaded before the first request',
    );
    await server.stop();

    const again = await openOwned({
      env: { ...env, MONOLITH_ACCOUNTS_SIGNUP: 'open' },
      models: ['mine'],
      signUp: false,
    });
    t.teardown(() => again.close());
    t.equal((await ask(again.server.url, 'tiny', 'A')).status, 200, 'the model is served after a restart');

    const cli = (...args: string[]): Promise<{ status: number | null; out: string }> =>
      new Promise((resolve) => {
        const child = spawn(process.execPath, [main, 'models', ...args], {
          env: { ...process.env, ...env, MONOLITH_MODELS: '{}' },
        });
        let out = '';
        child.stdout.on('data', (text) => {
          out += text;
        });
        child.stderr.on('data', (text) => {
          out += text;
        });
        child.on('close', (status) => resolve({ status, out }));
      });
    if (threads > 1) return;
    t.match(await cli('serve', 'tiny', 'acme/Tiny-GGUF'), { status: 2, out: /"tiny" is already taken/ });
    t.match(await cli('serve', 'second', 'acme/Tiny-GGUF', '--display-name', 'Second one'), {
      status: 0,
      out: 'second serves acme/Tiny-GGUF:F16. This takes effect on a running server within a second and persists across restarts.\n',
    });
    t.ok(
      await eventually(async () => (await ask(again.server.url, 'second', 'A')).status === 200),
      'the running server serves the new model',
    );
    t.match(await cli(), { status: 0, out: /\nsecond .*llama F16/ });
    t.match(await cli('unserve', 'second'), { status: 0, out: /no longer served/ });
    t.ok(await eventually(async () => (await ask(again.server.url, 'second', 'A')).status === 404));
    t.match(await cli('unserve', 'second'), { status: 2, out: /is not served by/ });
  });
}

t.test('a model that exceeds the memory of the machine and a name beyond the limit are refused', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-serving-'));
  const store = await openStore(path);
  t.teardown(async () => {
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  const served = new LmdbServedModels(store, new LmdbAuditLog(store));
  const fact: FileFact = {
    bytes: 1,
    architecture: 'llama',
    parameters: 1,
    quantization: 'Q8_0',
    task: 'generation',
    plan: null,
    memory: 2 ** 33,
    problem: null,
  };
  const from = {
    store: served,
    taken: new Set<string>(),
    memory: { total: 2 ** 32, available: 2 ** 31 },
    hub: {
      cached: () => ({ path: '/there', quantization: 'Q8_0', projector: null, commit: '', bytes: 1, fetched: 0 }),
    },
    fileFacts: { of: () => Promise.resolve(fact) } as never,
  };
  const actor = { type: 'command_line', id: null, email: null, ip: null } as const;
  await t.rejects(serveFetched({ name: 'big', model: 'acme/big' }, from, actor), {
    code: 'invalid_value',
    message: 'acme/big needs 8 GiB of memory, but this machine has 4 GiB.',
  });
  t.equal((await served.all()).size, 0, 'a refused model is not declared');
  const roomy = { ...from, memory: { total: 2 ** 34, available: 0 } };
  await Promise.all(
    Array.from({ length: MAX_SERVED }, (_, at) => serveFetched({ name: `m${at}`, model: 'acme/big' }, roomy, actor)),
  );
  await t.rejects(serveFetched({ name: 'more', model: 'acme/big' }, roomy, actor), { message: /which is the maximum/ });
});

t.test('a model that has the name of a LoRA adapter is refused, and delays no other model', async (t) => {
  const path = mkdtempSync(join(tmpdir(), 'monolith-serving-'));
  const store = await openStore(path);
  const rows = new LmdbServedModels(store, new LmdbAuditLog(store));
  const pool = new ModelPool(loadOptions);
  const base = { ...modelOfFile('base', join(folder, 'script.gguf')), load: 'demand' as const };
  pool.add(base);
  const adapter = { base: 'base', name: 'x', path: join(path, 'x.gguf'), scale: 1, setting: null };
  void pool.addAdapter(adapterModel(base, adapter));
  const row = {
    ...{ source: 'acme/Tiny-GGUF:F16', path: join(folder, 'script.gguf'), displayName: 'm', idleMinutes: null },
    addedAt: new Date().toISOString(),
  };
  const note = {
    actor: { type: 'command_line', id: null, email: null, ip: null },
    action: 'model.served',
    detail: {},
  } as const;
  for (const name of ['base:x', 'later']) await rows.add(name, row, () => undefined, note);
  const warnings: string[] = [];
  const log = {
    ...{ info: () => undefined, error: () => undefined },
    warn: (_fields: object, message: string) => warnings.push(message),
  } as unknown as Log;
  const served = await DynamicModels.open({
    ...{ store: rows, pool, hub: { cached: () => null }, bus: new LocalBus(), log, taken: new Set<string>() },
    ...{ graceMs: 0, readMs: 20, isUnloaded: () => false, onServed: () => undefined },
  });
  t.teardown(async () => {
    served.close();
    await pool.close();
    await store.close();
    rmSync(path, { recursive: true, force: true });
  });
  t.match(pool.get('base:x')?.model, { adapter: { name: 'x' } });
  t.ok(pool.get('later'), 'the next model is added');
  t.match(warnings.join(''), /a LoRA adapter is named base:x/);
  const fileFacts = { of: () => Promise.reject(new Error('not reached')) } as unknown as FileFacts;
  await t.rejects(
    served.serve(
      { name: 'base:x', model: 'acme/Tiny-GGUF' },
      { fileFacts, memory: { total: 1, available: 1 } },
      note.actor,
    ),
    { message: /already taken by a model, an alias or a LoRA adapter/ },
  );
  pool.removeAdapter('base:x');
  t.ok(await eventually(() => pool.get('base:x')?.model.file === join(folder, 'script.gguf')), 'once the name is free');
});
