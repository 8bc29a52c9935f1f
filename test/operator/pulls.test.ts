// Tests downloading models from a hub while the server is running: progress, completion, failures, permissions, and
// several HTTP workers.

import { readFileSync } from 'node:fs';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import type { ModelPull } from '../../src/shared/wire/models.js';
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
    const { owner, client, close } = await openOwned({
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
      ].map(refusal),
    ))
      t.match(refused, { status: 403, code: 'role_not_allowed' });

    const tiny = await owner.post<ModelPull>('/operator/pulls', { model: 'acme/tiny-GGUF' });
    t.match(tiny, { model: 'acme/tiny-GGUF', state: 'running', error: null });
    t.ok(await eventually(async () => (await pullOf(tiny))?.state === 'done'));
    t.match(await disk(), {
      models: [{ model: 'acme/tiny-GGUF:Q8_0', architecture: 'llama', fits: 'yes', problem: null, served_as: null }],
    });
    t.match((await owner.get<ListPage<AuditEntry>>('/operator/audit-log')).data[0], {
      action: 'model.pulled',
      target: 'acme/tiny-GGUF',
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
    // The server stops during the download. If it did not, the teardown would wait forever.
  });
}
