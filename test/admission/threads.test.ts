// Four threads at one buffer, as fast as they can: what they are given together never passes a limit, and when
// all is over every count is zero.
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

t.setTimeout(300_000); // for a busy machine

const THREADS = 4;

async function together(asked: Omit<Asked, 'gauge' | 'seed'>): Promise<Told[]> {
  const gauge = new SharedArrayBuffer(asked.organizations * 4);
  return Promise.all(
    Array.from({ length: THREADS }, async (_, at) => {
      const worker = new Worker(new URL('./threads-worker.js', import.meta.url), {
        workerData: { ...asked, gauge, seed: at * 7_919 + 1 } satisfies Asked,
      });
      // Listened for at once: of a thread that has ended before it was heard, both come together.
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

t.test('places: never more inside than there are, none taken at the end', async (t) => {
  const buffer = new SharedArrayBuffer(COUNTER_BYTES);
  const told = await together({
    buffer,
    limits: { rpm: null, tpm: null, concurrency: 8 },
    rounds: 8_000,
    organizations: 3,
    hold: 12,
    keyPlaces: 5,
  });
  for (const { highest } of told) t.ok(highest <= 5, `at most ${highest} of the key's 5 at once`);
  t.ok(Math.max(...told.map(({ highest }) => highest)) >= 4, 'and there was a throng');
  t.ok(sum(told, ({ refused }) => refused['concurrency_limit_exceeded'] ?? 0) > 1_000);
  t.ok(sum(told, ({ connections }) => connections) > 100);
  const admission = new LocalAdmission(configWith({ limits: { concurrency: 8 } }).limits, { buffer });
  t.equal(admission.unfinished(), 0);
});

t.test('requests and tokens: exactly as many as the bucket has', async (t) => {
  // Held to the end, so that nothing comes back.
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
    const refilled = Math.ceil(((performance.now() - began) / 1000) * 10); // 600 a minute
    const admitted = sum(told, (one) => one.admitted);
    t.ok(admitted >= 600 && admitted <= 600 + refilled, `${admitted} of 600 and ${refilled} refilled`);
    t.equal(
      new LocalAdmission(configWith({}).limits, { buffer }).standing(org(0), 'm').unfinished,
      admitted,
      'and all are counted as unfinished',
    );
  }
});

t.test('threads that make the same records at the same time', async (t) => {
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
  t.ok(places.size > 2_495, 'a record each');
});

t.test('a table too small for all: replaced under load, and still right', async (t) => {
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
  for (const { highest } of told) t.ok(highest <= 3, `${highest} inside`);
  t.equal(new RecordTable(buffer, { now: () => 0n, month: () => 0 }).unfinished(), 0);
});
