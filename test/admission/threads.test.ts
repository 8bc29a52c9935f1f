// Tests four threads that use one shared buffer at full speed. Their combined admissions never exceed a limit, and at
// the end every count is zero.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import type { Limited } from '../../src/admission/admission.js';
import { COUNTER_BYTES } from '../../src/admission/counter-memory.js';
import { LocalAdmission } from '../../src/admission/local-admission.js';
import { recordKey } from '../../src/admission/record-key.js';
import { RecordTable, tableBytes } from '../../src/admission/record-table.js';
import { configWith } from '../../src/config/load.js';
import type { Asked, Told } from './threads-worker.js';

t.setTimeout(300_000); // the machine may be busy

const THREADS = 4;

async function together(asked: Omit<Asked, 'gauge' | 'seed'>): Promise<Told[]> {
  const gauge = new SharedArrayBuffer(asked.organizations * 4);
  return Promise.all(
    Array.from({ length: THREADS }, async (_, at) => {
      const worker = new Worker(new URL('./threads-worker.js', import.meta.url), {
        workerData: { ...asked, gauge, seed: at * 7_919 + 1 } satisfies Asked,
      });
      // Attaches both listeners at the same time, because a thread may send its message and exit before this code runs
      // again.
      const [[told]] = await Promise.all([once(worker, 'message') as Promise<[Told]>, once(worker, 'exit')]);
      return told;
    }),
  );
}

const sum = (told: readonly Told[], of: (one: Told) => number): number => told.reduce((all, one) => all + of(one), 0);
const org = (id: number): Limited => ({
  organizationId: `org_${id}`,
  limits: {},
  keyId: `key_${id}`,
  keyLimits: null,
  monthlyTokenCap: null,
});

t.test('concurrent requests never exceed the slots, and no slot is taken at the end', async (t) => {
  const buffer = new SharedArrayBuffer(COUNTER_BYTES);
  const told = await together({
    buffer,
    limits: { rpm: null, tpm: null, concurrency: 8 },
    rounds: 8_000,
    organizations: 3,
    hold: 12,
    keyPlaces: 5,
  });
  for (const { highest } of told) t.ok(highest <= 5, `${highest} requests of the key's limit of 5 were concurrent`);
  t.ok(Math.max(...told.map(({ highest }) => highest)) >= 4, 'the slots were contended');
  t.ok(sum(told, ({ refused }) => refused['concurrency_limit_exceeded'] ?? 0) > 1_000);
  t.ok(sum(told, ({ connections }) => connections) > 100);
  const admission = new LocalAdmission(configWith({ limits: { concurrency: 8 } }).limits, { buffer });
  t.equal(admission.unfinished(), 0);
});

t.test('exactly as many requests and tokens are admitted as the bucket holds', async (t) => {
  // All requests are held until the end, so no tokens or requests are returned to the bucket.
  for (const limits of [
    { rpm: 600, tpm: null },
    { rpm: null, tpm: 12_000 },
  ]) {
    const buffer = new SharedArrayBuffer(COUNTER_BYTES);
    const began = performance.now();
    const told = await together({
      buffer,
      limits: { ...limits, concurrency: null },
      rounds: 1_500,
      organizations: 1,
      hold: 1e9,
      keyPlaces: null,
    });
    const refilled = Math.ceil(((performance.now() - began) / 1000) * 10); // 600 per minute
    const admitted = sum(told, (one) => one.admitted);
    t.ok(
      admitted >= 600 && admitted <= 600 + refilled,
      `${admitted} were admitted: 600 and up to ${refilled} refilled`,
    );
    t.equal(
      new LocalAdmission(configWith({}).limits, { buffer }).standing(org(0), 'm').unfinished,
      admitted,
      'all are counted as unfinished',
    );
  }
});

t.test('threads that create the same records concurrently agree on them', async (t) => {
  const buffer = new SharedArrayBuffer(COUNTER_BYTES);
  const told = await together({
    buffer,
    limits: { rpm: null, tpm: null, concurrency: 4 },
    rounds: 5_000,
    organizations: 2_500,
    hold: 50,
    keyPlaces: null,
  });
  t.ok(sum(told, (one) => one.admitted) > 10_000);
  const table = new RecordTable(buffer, { now: () => 0n, month: () => 0 });
  t.equal(table.unfinished(), 0);
  const places = new Set(
    Array.from({ length: 2_500 }, (_, id) => table.find(recordKey('organization', org(id).organizationId, 'm'))),
  );
  t.ok(places.size > 2_495, 'each key has one record');
});

t.test('a table too small for all keys replaces records under load and still counts correctly', async (t) => {
  const buffer = new SharedArrayBuffer(tableBytes(256));
  const told = await together({
    buffer,
    limits: { rpm: null, tpm: null, concurrency: 3 },
    rounds: 5_000,
    organizations: 400,
    hold: 10,
    keyPlaces: null,
  });
  t.ok(sum(told, (one) => one.admitted) > 10_000);
  for (const { highest } of told) t.ok(highest <= 3, `${highest} concurrent`);
  t.equal(new RecordTable(buffer, { now: () => 0n, month: () => 0 }).unfinished(), 0);
});
