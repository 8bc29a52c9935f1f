// npm run soak -- [--minutes N] [--seed N] [--rate N]: a server with two HTTP workers gets requests on every endpoint,
// 30% of which are aborted, while keys are created and revoked and models are drained and reloaded. Memory after a full
// collection in every thread must stay flat to within 2% over the second half of the run, and the number of allocator
// arenas must not grow. File descriptors and the server's counts of running work must return to their initial values.
// With --leak N, the main thread leaks N bytes per second (leak.ts), which the test must detect.
import { join } from 'node:path';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import type { LimitsObject } from '../../src/shared/wire/limits.js';
import { badOption } from '../support/bad-option.js';
import { openOwned } from '../support/owned-server.js';
import { eventually, root } from '../e2e/monolith.js';
import { people } from './people.js';
import { growth, keptOf, mostOf, sampleOf, type Kept, type Sample } from './sample.js';
import { MODELS, Traffic } from './traffic.js';

const CLIENTS = 24;
const SAMPLE_MS = 5_000;
/** Every COLLECT-th sample is taken after a full collection in all threads. */
const COLLECT = 3;
const THREADS = 2;
const FLAT = 0.02;
/** Number of additional descriptors that are allowed: database readers, and connections that are kept open. */
const DESCRIPTORS_MORE = 8;
/**
 * A thread creates an arena if all existing arenas are in use at that moment, so a new arena may appear late in the
 * run.
 */
const ARENAS_MORE = 1;

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    rate: { type: 'string' },
    leak: { type: 'string', default: '0' },
  },
});
const [minutes, seed, leak] = [Number(values.minutes), Number(values.seed), Number(values.leak)];
const rate = values.rate === undefined ? null : Number(values.rate);
if (!(minutes > 0) || !Number.isSafeInteger(seed) || !(rate === null || rate > 0) || !(leak >= 0))
  throw badOption('--minutes, --seed, --rate and --leak must be numbers');
const say = (text: string): void => {
  process.stdout.write(`${text}\n`);
};
const mib = (bytes: number): string => `${(bytes / 1024 ** 2).toFixed(1)} MiB`;

const folder = mkdtempSync(join(tmpdir(), 'monolith-soak-'));
const seeing = join(root, 'test', 'data', 'vision', 'text-llama-bpe.gguf');
const picture = `data:image/png;base64,${readFileSync(join(root, 'test', 'data', 'vision', 'shapes.png')).toString('base64')}`;
const { server, owner, organization, client, close } = await openOwned({
  args: [
    '--engine-max-sequences',
    '6',
    '--engine-queue-max',
    '6',
    '--engine-queue-wait-ms',
    '300',
    '--model',
    `see=${seeing}`,
  ],
  env: {
    MONOLITH_LOG_LEVEL: 'error',
    MONOLITH_LIMITS_CONCURRENCY: '12',
    MONOLITH_LIMITS_RPM: 'off',
    MONOLITH_LIMITS_TPM: 'off',
    MONOLITH_WS_MAX_CONNECTIONS: '12',
    MONOLITH_HTTP_THREADS: String(THREADS),
    MONOLITH_IMAGES_MAX_TOKENS: '200',
    MONOLITH_MODELS: JSON.stringify({ see: { max_output_tokens: 8 } }),
    NODE_OPTIONS: ['collect', 'leak']
      .map((name) => `--import ${pathToFileURL(join(root, 'build', 'test', 'soak', `${name}.js`)).href}`)
      .join(' '),
    MONOLITH_TEST_COLLECTED: join(folder, 'collected.json'),
    MONOLITH_TEST_LEAK: String(leak),
  },
});
const problems: string[] = [];
try {
  const pid = server.process.pid!;
  const { secret } = await owner.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, { name: 'soak' });
  const traffic = new Traffic({
    server,
    secret,
    seed,
    abortPercent: 30,
    sight: { model: 'see', pictures: [picture] },
    ...(rate === null ? {} : { rate }),
  });
  say(`seed ${seed}, ${minutes} minutes${rate === null ? '' : `, ${rate} client turns per second`}`);
  await traffic.run(CLIENTS, performance.now() + 3_000); // warm up every connection and thread
  await eventually(async () => (await sum('monolith_sequences_running')) === 0);
  const begun = sampleOf(pid);
  const end = performance.now() + minutes * 60_000;
  const samples: Sample[] = [];
  const kept: Kept[] = [];
  await Promise.all([
    traffic.run(CLIENTS, end),
    sampling(pid, samples, kept, end),
    people({ server, owner, organization, client, models: [...MODELS, 'see'], end }),
  ]);
  if (
    !(await eventually(
      async () => (await sum('monolith_sequences_running')) === 0 && (await sum('monolith_requests_waiting')) === 0,
      60_000,
    ))
  )
    problems.push('sequences are running or requests waiting for clients that have disconnected');
  const limits = (): Promise<LimitsObject> => owner.get(`/organizations/${organization.id}/limits`);
  if (
    !(await eventually(
      async () => (await limits()).models.every(({ concurrency }) => concurrency.in_use === 0),
      60_000,
    ))
  )
    problems.push(`concurrency slots are taken, but no request is running: ${JSON.stringify((await limits()).models)}`);
  if (!(await eventually(() => sampleOf(pid).descriptors <= begun.descriptors + DESCRIPTORS_MORE, 60_000)))
    problems.push(`${sampleOf(pid).descriptors} descriptors are open, at the start ${begun.descriptors}`);
  const of = (name: keyof Sample): number[] => samples.map((sample) => sample[name]);
  const percent = (values: readonly number[]): string => `${(100 * growth(values)).toFixed(1)} percent`;
  const anonymous = kept.map((one) => one.anonymous);
  if (!(growth(anonymous) <= FLAT))
    problems.push(`anonymous memory after collections grew by ${percent(anonymous)} over the last half`);
  const [arenasBefore, arenasAfter] = mostOf(of('arenas'));
  if (!(arenasAfter <= arenasBefore + ARENAS_MORE))
    problems.push(`${arenasAfter} arenas in the last half, at most ${arenasBefore} before`);
  if (traffic.statuses.has('500')) problems.push(`${traffic.statuses.get('500')} responses had status 500`);
  const unasked = (await documented()).filter((one) => !traffic.endpoints.has(one));
  if (unasked.length > 0) problems.push(`endpoints never called: ${unasked.join(', ')}`);
  const last = sampleOf(pid);
  say(`answers: ${JSON.stringify(Object.fromEntries(traffic.statuses))}`);
  say(
    `anonymous: ${mib(begun.anonymous)} at the start, ${of('anonymous')
      .filter((_, at) => at % Math.ceil(samples.length / 12) === 0)
      .map(mib)
      .join(', ')}, ${mib(last.anonymous)} idle; over the last half ${percent(of('anonymous'))}`,
  );
  say(
    `after ${kept.length} collections ${anonymous
      .filter((_, at) => at % Math.ceil(kept.length / 12) === 0)
      .map(mib)
      .join(
        ', ',
      )}; over the last half ${percent(anonymous)}; outside the heaps ${percent(kept.map((one) => one.native))}`,
  );
  for (const thread of kept.at(-1)?.isolates.map((one) => one.thread) ?? []) {
    const isolates = kept.flatMap((one) => one.isolates.filter((isolate) => isolate.thread === thread));
    const told = (name: string, values: readonly number[]): string =>
      `${name} ${mib(values.at(-1) ?? NaN)} (${percent(values)})`;
    say(
      `thread ${thread} keeps ${[
        told(
          'objects',
          isolates.map((one) => one.used),
        ),
        told(
          'heap',
          isolates.map((one) => one.heap),
        ),
        told(
          'outside',
          isolates.map((one) => one.external),
        ),
        ...Object.keys(isolates[0]?.spaces ?? {})
          .filter((space) => isolates.at(-1)!.spaces[space]! > 500_000)
          .map((space) =>
            told(
              space,
              isolates.map((one) => one.spaces[space]!),
            ),
          ),
      ].join(', ')}`,
    );
  }
  say(
    `descriptors ${begun.descriptors} to ${last.descriptors}, threads ${begun.threads} to ${last.threads}, arenas ${begun.arenas} to ${last.arenas} (${arenasBefore} and ${arenasAfter} at most in each half), resident ${mib(begun.resident)} to ${mib(last.resident)}`,
  );
  const errors = server
    .log()
    .split('\n')
    .filter((line) => /"level":"?(error|50)/.test(line));
  if (errors.length > 0) problems.push(`the log has ${errors.length} errors: ${errors[0]}`);
} finally {
  await close();
  rmSync(folder, { recursive: true, force: true });
}
for (const problem of problems) say(problem);
say(problems.length === 0 ? 'no problems found' : `${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;

async function sum(name: string): Promise<number> {
  return [...(await server.metrics())]
    .filter(([one]) => one.startsWith(name))
    .reduce((all, [, value]) => all + value, 0);
}

/**
 * Returns the endpoints in the server's OpenAPI document, except the endpoints that only operators call (people.ts).
 */
async function documented(): Promise<string[]> {
  const { paths } = (await (await fetch(`${server.url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, unknown>>;
  };
  return Object.entries(paths)
    .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`))
    .filter((one) => !['GET /props', 'GET /slots'].includes(one));
}

async function sampling(pid: number, samples: Sample[], kept: Kept[], end: number): Promise<void> {
  const began = performance.now();
  while (performance.now() < end) {
    await sleep(SAMPLE_MS);
    const sample = sampleOf(pid);
    samples.push(sample);
    if (samples.length % COLLECT === 0) {
      const one = await keptOf(pid, join(folder, 'collected.json'), 1 + THREADS);
      if (one !== null) kept.push(one);
    }
    const last = kept.at(-1);
    if (samples.length % 12 === 0 && last !== undefined)
      say(
        `${((performance.now() - began) / 60_000).toFixed(1)} min: anonymous ${mib(sample.anonymous)}, after a collection ${mib(last.anonymous)}, of which objects ${mib(last.used)} and outside the heaps ${mib(last.native)}, ${sample.descriptors} descriptors, ${sample.arenas} arenas`,
      );
  }
}
