// npm run soak -- [--minutes N] [--seed N]: two threads, every endpoint, 30 percent of the requests given up, keys made and
// revoked, models drained and loaded again. Memory has to be flat within 2 percent over the last half; descriptors and what the
// server counts as under way come back.
import { parseArgs } from 'node:util';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CreatedApiKey, LimitsObject } from '../../src/wire/dashboard.js';
import { openOwned } from '../support/owned-server.js';
import { eventually } from '../e2e/monolith.js';
import { growth, sampleOf, type Sample } from './sample.js';
import { MODELS, Traffic } from './traffic.js';

const CLIENTS = 24;
const SAMPLE_MS = 5_000;
const FLAT = 0.02;
/** Of the database's readers and connections that are kept open. */
const DESCRIPTORS_MORE = 8;

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '60' }, seed: { type: 'string', default: String(Date.now() % 1_000_000) } } });
const [minutes, seed] = [Number(values.minutes), Number(values.seed)];
if (!(minutes > 0) || !Number.isSafeInteger(seed)) throw new Error('--minutes and --seed must be numbers');
const say = (text: string): void => { process.stdout.write(`${text}\n`); };
const mib = (bytes: number): string => `${(bytes / 1024 ** 2).toFixed(1)} MiB`;

const { server, owner, organization, close } = await openOwned({
  args: ['--engine-max-sequences', '6', '--engine-queue-max', '6', '--engine-queue-wait-ms', '300'],
  env: { MONOLITH_LOG_LEVEL: 'error', MONOLITH_LIMITS_CONCURRENCY: '12', MONOLITH_LIMITS_RPM: 'off', MONOLITH_LIMITS_TPM: 'off', MONOLITH_WS_MAX_CONNECTIONS: '12', MONOLITH_HTTP_THREADS: '2' },
});
const problems: string[] = [];
try {
  const pid = server.process.pid!;
  const { secret } = await owner.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, { name: 'soak' });
  const traffic = new Traffic({ server, secret, seed, abortPercent: 30 });
  say(`seed ${seed}, ${minutes} minutes`);
  await traffic.run(CLIENTS, performance.now() + 3_000);          // every connection and thread is there once
  await eventually(async () => (await sum('monolith_sequences_running')) === 0);
  const begun = sampleOf(pid);
  const end = performance.now() + minutes * 60_000;
  const samples: Sample[] = [];
  await Promise.all([
    traffic.run(CLIENTS, end), sampling(pid, samples, end),
    until(end, 200, async () => {
      const { id } = await owner.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, { name: 'passing' });
      await owner.delete(`/organizations/${organization.id}/api-keys/${id}`);
    }),
    until(end, 15_000, async () => {
      for (const model of MODELS) await owner.post(`/operator/models/${model}/drain`);
      await sleep(500);
      for (const model of MODELS) await owner.post(`/operator/models/${model}/load`);
    }),
  ]);
  if (!await eventually(async () => (await sum('monolith_sequences_running')) === 0 && (await sum('monolith_requests_waiting')) === 0, 60_000)) problems.push('sequences run, or requests wait, of clients that are gone');
  const limits = (): Promise<LimitsObject> => owner.get(`/organizations/${organization.id}/limits`);
  if (!await eventually(async () => (await limits()).models.every(({ concurrency }) => concurrency.in_use === 0), 60_000)) problems.push(`places are taken by nobody: ${JSON.stringify((await limits()).models)}`);
  if (!await eventually(() => sampleOf(pid).descriptors <= begun.descriptors + DESCRIPTORS_MORE, 60_000)) problems.push(`${sampleOf(pid).descriptors} descriptors are open, and were ${begun.descriptors}`);
  const more = growth(samples.map(({ anonymous }) => anonymous));
  if (!(Math.abs(more) <= FLAT || more < 0)) problems.push(`anonymous memory grew by ${(100 * more).toFixed(1)} percent over the last half`);
  if (traffic.statuses.has('500')) problems.push(`${traffic.statuses.get('500')} answers were 500`);
  const last = sampleOf(pid);
  say(`answers: ${JSON.stringify(Object.fromEntries(traffic.statuses))}`);
  say(`anonymous: ${mib(begun.anonymous)} at the beginning, ${samples.map(({ anonymous }) => anonymous).filter((_, at) => at % Math.ceil(samples.length / 12) === 0).map(mib).join(', ')}, ${mib(last.anonymous)} idle; over the last half ${(100 * more).toFixed(1)} percent`);
  say(`descriptors ${begun.descriptors} to ${last.descriptors}, threads ${begun.threads} to ${last.threads}, arenas ${begun.arenas} to ${last.arenas}, resident ${mib(begun.resident)} to ${mib(last.resident)}`);
  const errors = server.log().split('\n').filter((line) => /"level":"?(error|50)/.test(line));
  if (errors.length > 0) problems.push(`the log has ${errors.length} errors: ${errors[0]}`);
} finally {
  await close();
}
for (const problem of problems) say(problem);
say(problems.length === 0 ? 'nothing is left' : `${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;

async function sum(name: string): Promise<number> {
  return [...await server.metrics()].filter(([one]) => one.startsWith(name)).reduce((all, [, value]) => all + value, 0);
}

async function sampling(pid: number, samples: Sample[], end: number): Promise<void> {
  while (performance.now() < end) {
    await sleep(SAMPLE_MS);
    const sample = sampleOf(pid);
    samples.push(sample);
    if (samples.length % 12 === 0) say(`${samples.length * SAMPLE_MS / 60_000} min: anonymous ${mib(sample.anonymous)}, ${sample.descriptors} descriptors, ${sample.arenas} arenas`);
  }
}

async function until(end: number, ms: number, work: () => Promise<void>): Promise<void> {
  for (; performance.now() < end; await sleep(ms)) await work();
}
