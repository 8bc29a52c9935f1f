// Tests downloading models from a hub while the server is running: progress, completion, failures, permissions, and
// several HTTP workers.

import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ollama } from 'ollama';
import t from 'tap';
import type { HubModel, ModelPull } from '../../src/shared/wire/models.js';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { DiskState } from '../../src/shared/wire/models.js';
import type { AuditEntry } from '../../src/shared/wire/organizations.js';
import { embeddedModel, eventually } from '../e2e/monolith.js';
import { refusal } from '../support/dashboard-client.js';
import { startHub } from '../support/hub-server.js';
import { openOwned } from '../support/owned-server.js';

t.setTimeout(300_000);

for (const threads of [1, 2]) {
  t.test(`operators download models with ${threads} HTTP worker${threads > 1 ? 's' : ''}`, async (t) => {
    const hub = await startHub({
      'acme/tiny-GGUF': { files: { 'tiny-Q8_0.gguf': readFileSync(embeddedModel) } },
      'acme/slow-GGUF': { files: { 'slow-Q8_0.gguf': Buffer.alloc(1_000_000, 7) } },
    });
    const folder = mkdtempSync(join(tmpdir(), 'monolith-pulls-'));
    const { server, owner, client, close } = await openOwned({
      env: { HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: join(folder, 'hub'), MONOLITH_HTTP_THREADS: String(threads) },
    });
    t.teardown(async () => {
      await close();
      await hub.close();
      rmSync(folder, { recursive: true, force: true });
    });
    const disk = (): Promise<DiskState> => owner.get<DiskState>('/operator/disk');
    const pullOf = async ({ id }: ModelPull): Promise<ModelPull | undefined> =>
      (await disk()).pulls.find((one) => one.id === id);

    t.match(await disk(), { object: 'disk', endpoint: hub.endpoint, models: [], pulls: [], memory_bytes: Number });
    t.match(await refusal(owner.post('/operator/pulls', { model: 'tiny' })), { status: 422, code: 'invalid_value' });
    const member = client();
    await member.signUp({ email: 'plain@example.com' });
    for (const refused of await Promise.all(
      [
        member.get('/operator/disk'),
        member.post('/operator/pulls', { model: 'acme/tiny-GGUF' }),
        member.delete('/operator/pulls/x'),
        member.delete('/operator/disk?model=acme/tiny-GGUF:Q8_0'),
        member.get('/operator/hub/models?q=tiny'),
      ].map(refusal),
    ))
      t.match(refused, { status: 403, code: 'role_not_allowed' });

    t.match(await owner.get<ListPage<HubModel>>('/operator/hub/models?q=TINY'), {
      data: [
        { model: 'acme/tiny-GGUF', downloads: 1_000, likes: 0, updated_at: '2026-11-02T08:00:00.000Z', gated: false },
      ],
    });
    t.match(await refusal(owner.get('/operator/hub/models?q=')), { status: 400, code: 'invalid_query_parameter' });
    hub.faults = { answers: [{ status: 404 }] };
    t.match(await refusal(owner.get('/operator/hub/models?q=tiny')), { status: 503, code: 'hub_unavailable' });

    const tiny = await owner.post<ModelPull>('/operator/pulls', { model: 'acme/tiny-GGUF' });
    t.match(tiny, { model: 'acme/tiny-GGUF', state: 'running', error: null });
    t.ok(await eventually(async () => (await pullOf(tiny))?.state === 'done'));
    t.match(await disk(), {
      models: [{ model: 'acme/tiny-GGUF:Q8_0', architecture: 'llama', fits: 'yes', problem: null, served_as: null }],
    });
    const [kept] = (await disk()).models;
    const { weights, kv, states, activations } = kept!.memory_plan!;
    t.equal(weights + kv + states + activations, kept!.memory_bytes, 'the plan adds up to the memory');

    t.match((await owner.get<ListPage<AuditEntry>>('/operator/audit-log')).data[0], {
      action: 'model.pulled',
      target: 'acme/tiny-GGUF',
    });

    const reference = 'acme/tiny-GGUF:Q8_0';
    await owner.post('/operator/models', { name: 'tiny', model: reference });
    t.match(await refusal(owner.delete(`/operator/disk?model=${reference}`)), {
      status: 422,
      code: 'conflicting_parameters',
      message: /is served as tiny\. Stop serving it first/,
    });
    await owner.delete('/operator/models/tiny');
    t.match(await owner.delete(`/operator/disk?model=${reference}`), {
      model: reference,
      freed_bytes: kept!.file_bytes,
    });
    t.same((await disk()).models, []);
    t.notOk(existsSync(join(folder, 'hub', 'models--acme--tiny-GGUF')), 'nothing of it is left in the cache');
    t.match(await refusal(owner.delete(`/operator/disk?model=${reference}`)), { status: 404 });

    await t.test("Ollama's client downloads a model and talks to it", async (t) => {
      const ollama = new Ollama({ host: server.url, headers: { authorization: `Bearer ${server.key}` } });
      const lines = [];
      for await (const line of await ollama.pull({ model: 'hf.co/acme/tiny-GGUF:Q8_0', stream: true }))
        lines.push(line);
      t.equal(lines[0]?.status, 'pulling manifest');
      t.equal(lines.at(-1)?.status, 'success');
      for (const { status, total, completed } of lines.slice(1, -1)) {
        t.match(status, /^pulling tiny-Q8_0\.gguf$/);
        t.ok(completed <= total, 'the progress never exceeds the total');
      }
      const model = 'hf.co/acme/tiny-GGUF:Q8_0';
      t.ok((await ollama.list()).models.some(({ name }) => name === model));
      // Greedy, because the small model sometimes samples a response that is all reasoning.
      const { message } = await ollama.chat({
        model,
        messages: [{ role: 'user', content: 'Hello!' }],
        options: { temperature: 0 },
      });
      t.not(message.content, '', 'the downloaded model answers');
      t.same(await ollama.pull({ model }), { status: 'success' }, 'a model that is served is not downloaded again');
      await t.rejects(ollama.pull({ model: 'acme/nothing' }), /no such repository/);
      await owner.delete(`/operator/models/${encodeURIComponent(model)}`);
    });

    const nothing = await owner.post<ModelPull>('/operator/pulls', { model: 'acme/nothing' });
    t.ok(
      await eventually(async () =>
        /no such repository on .*, or it is private/.test((await pullOf(nothing))?.error ?? ''),
      ),
    );

    hub.faults = { stallAfter: 300_000 };
    const slow = await owner.post<ModelPull>('/operator/pulls', { model: 'acme/slow-GGUF' });
    t.ok(
      await eventually(async () => {
        const now = await pullOf(slow);
        return now?.quantization === 'Q8_0' && now.total_bytes === 1_000_000 && now.bytes > 0;
      }),
      'the progress is reported',
    );
    await owner.delete(`/operator/pulls/${slow.id}`);
    t.ok(await eventually(async () => (await pullOf(slow))?.state === 'stopped'));
    const again = await owner.post<ModelPull>('/operator/pulls', { model: 'acme/slow-GGUF' });
    t.ok(
      await eventually(async () => ((await pullOf(again))?.bytes ?? 0) > 300_000),
      'a restarted download resumes where it stopped',
    );
    // The download is still running when the test ends. If the server waited for the download, the teardown would never
    // finish.
  });
}
