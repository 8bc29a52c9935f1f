// Tests the jobs of batches on real stores when a step fails, as after a lost connection to the database, and the job
// is repeated.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { EventLoopBudget } from '../../src/admission/event-loop-budget.js';
import { openSharedWork } from '../../src/http/shared-work.js';
import { runJob } from '../../src/protocol/batches/jobs.js';
import type { JobDeps } from '../../src/protocol/batches/jobs.js';
import { apiError } from '../../src/shared/errors.js';
import { newBatchId } from '../../src/shared/ids.js';
import type { Batch, BatchStore } from '../../src/storage/batch-store.js';
import { LmdbBatchStore } from '../../src/storage/lmdb/batches/batch-store.js';
import { LmdbFileContents } from '../../src/storage/lmdb/files/contents.js';
import { LmdbFileStore } from '../../src/storage/lmdb/files/file-store.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';

t.setTimeout(120_000); // the machine may be busy

const path = mkdtempSync(join(tmpdir(), 'monolith-batch-jobs-'));
const store = await openStore(path);
t.teardown(async () => {
  await store.close();
  rmSync(path, { recursive: true, force: true });
});
const batches = new LmdbBatchStore(store, { retention_days: 30 });
const files = new LmdbFileStore(
  new LmdbFileContents(store, { max_bytes: 1e6, organization_bytes: 1e6, total_bytes: 1e9 }, () => Date.now() / 1_000),
);

/** Job dependencies whose batch store rejects the next call of `method`, before or after it has taken effect. */
function failing(method: 'end' | 'dropResults', when: 'before' | 'after'): JobDeps {
  let isDue = true;
  const store = new Proxy(batches, {
    get(target: BatchStore, name: keyof BatchStore) {
      const own = (target[name] as (...args: unknown[]) => Promise<unknown>).bind(target);
      if (name !== method) return own;
      return async (...args: unknown[]) => {
        const fails = isDue;
        isDue = false;
        if (fails && when === 'before') throw apiError('maintenance', 'a lost connection');
        const result = await own(...args);
        if (fails) throw apiError('maintenance', 'a lost connection');
        return result;
      };
    },
  });
  return {
    batches: store,
    files,
    models: { find: () => t.fail('no model is needed') as never },
    identityOf: () => Promise.reject(new Error('no identity is needed')),
    work: openSharedWork({ max_answering_bytes: 1e6, max_body_bytes: 1e6 }),
    loopTime: new EventLoopBudget(null),
    log: undefined as never,
    maxLines: 10,
    maxLineBytes: 1_000,
    outputS: 86_400,
    now: Date.now,
  };
}

/** Creates a batch whose two lines have ended, one of them with an error. */
async function finalizing(organizationId: string): Promise<Batch> {
  const id = newBatchId('openai');
  await batches.create(
    {
      id,
      organizationId,
      keyId: 'key_a',
      kind: 'openai',
      endpoint: '/v1/chat/completions',
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
    [1, 2].map((line) => ({ line, customId: `c${line}`, body: '{}' })),
  );
  await batches.begin(id, 2, 'm');
  const text = JSON.stringify({ requestId: 'req_x', status: 200, body: '{}', headers: {} });
  for (const line of await batches.claim('p', 2, 30_000))
    await batches.finish(line, { outcome: line.line === 1 ? 'succeeded' : 'errored', text, usage: null });
  return (await batches.get(organizationId, id)) as Batch;
}

const filesOf = async (organizationId: string): Promise<string[]> =>
  (await files.list(organizationId, { newestFirst: false, after: null, limit: 100 })).files.map(({ id }) => id).sort();

for (const [method, when] of [
  ['end', 'before'],
  ['end', 'after'],
  ['dropResults', 'before'],
] as const)
  t.test(`a batch has one output file and one error file if ${method}() fails ${when} it takes effect`, async (t) => {
    const organizationId = `org_${method}_${when}`;
    const deps = failing(method, when);
    const batch = await finalizing(organizationId);
    t.equal(batch.phase, 'finalizing');
    await t.rejects(runJob(deps, batch), { code: 'maintenance' });
    t.equal(await runJob(deps, batch), null);
    const { phase, outputFileId, errorFileId } = (await batches.get(organizationId, batch.id)) as Batch;
    t.equal(phase, 'ended');
    t.same(await filesOf(organizationId), [outputFileId, errorFileId].sort());
    const lines: string[] = [];
    for await (const bytes of files.read(organizationId, outputFileId!)) lines.push(Buffer.from(bytes).toString());
    t.match(JSON.parse(lines.join('')), { custom_id: 'c1' });
    t.same([...store.table('batch-results').keys({ from: [batch.id], to: [`${batch.id}.`] })], []);
    t.equal([...store.table('file-contents').keys()].length, (await filesOf(organizationId)).length);
    for (const id of await filesOf(organizationId)) await files.delete(organizationId, id);
  });
