// How many stream events a second the server carries, and what one costs which of its threads: many open streams
// from one server process, read by another process that only counts. Processor time is the kernel's, by thread:
// the engine's own, those that compute for it, and all others, which are the front: the threads that answer, and
// what Node runs beside them. Events per second of the front's time is what one core could carry if the engine were
// never the limit. With --against two builds are measured in turn within the same seconds; with --alone the engine's
// speed with nobody but itself to serve is measured before and after each run.
//
//   npm run bench -- streams --json OUT
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

import { packageRoot } from '../src/engine/load-addon.js';
import { spreadOf, type Spread } from './lib/statistics.js';
import { StreamClient } from './lib/stream-client.js';

const USAGE = `npm run bench -- streams [options] [-- flags of the server, e.g. --device cuda]

  --model FILE         a GGUF file (default: the embedded model); the smaller, the more events
  --streams N          streams open at once (default 256)
  --seconds S          measured time per format and run (default 5), after 1 that is not counted
  --runs N             runs of each format (default 1)
  --tries N            runs of a figure until the engine waited less than 5 % of the time for a processor (default 1)
  --tokens N           tokens of each answer (default 1000); 1 shows what requests cost
  --threads N          threads that answer (--http-threads, default 1)
  --engine-threads N   threads that compute (--threads, default: one per core)
  --formats LIST       of chat, messages, responses (default all)
  --stalled N          further streams whose clients never read (default 0)
  --pin                the engine's thread alone on the first processor, all else on the others; needs taskset and --engine-threads 1
  --against FILE       another build's dist/main.js, measured in turn with this one
  --alone              also the engine without any stream, and what share of its speed is left with them
  --json OUT           write every figure to OUT
`;

const KEY = 'bench-streams-0000000';
const MODEL = 'tycho-1.0';
const QUESTION = 'Tell me a long story about a lighthouse.';

const FORMATS = {
  chat: { path: '/v1/chat/completions', body: (tokens: number) => ({ max_tokens: tokens, messages: [{ role: 'user', content: QUESTION }] }) },
  messages: { path: '/v1/messages', body: (tokens: number) => ({ max_tokens: tokens, messages: [{ role: 'user', content: QUESTION }] }) },
  responses: { path: '/v1/responses', body: (tokens: number) => ({ store: false, max_output_tokens: tokens, input: QUESTION }) },
} as const;

type Format = keyof typeof FORMATS;

/** One run. `engineWaited`: share of the time in which the engine's thread could have run and had no processor. Processor time in microseconds per event, of the engine's thread (the forward pass included), of the front, of its main thread. */
interface Run { engineWaited: number; eventsPerSecond: number; tokensPerSecond: number; answersPerSecond: number; frontUsPerAnswer: number | null; eventsPerRead: number; engineUs: number; frontUs: number; mainThreadUs: number; clientUs: number; delayP50Ms: number | null; delayP99Ms: number | null }
interface Load { streams: number; stalled: number; tokens: number; seconds: number; pin: boolean }
/** The engine with nothing else to do. */
interface AloneRun { engineWaited: number; tokensPerSecond: number; engineUsPerToken: number }
interface Figure { build: string; format: Format; eventsPerSecond: Spread; frontUs: Spread; eventsPerCoreSecond: number; runs: Run[] }

export async function streamsBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values, positionals } = parseArgs({
    args, strict: true, allowPositionals: true, options: {
      model: text, streams: text, seconds: text, runs: text, tokens: text, tries: text, threads: text, 'engine-threads': text, formats: text, stalled: text, pin: { type: 'boolean' }, against: text, alone: { type: 'boolean' }, json: text, help: { type: 'boolean' },
    },
  });
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  const streams = positive(values.streams ?? '256', '--streams');
  const seconds = positive(values.seconds ?? '5', '--seconds');
  const runs = positive(values.runs ?? '1', '--runs');
  const tokens = positive(values.tokens ?? '1000', '--tokens');
  const threads = positive(values.threads ?? '1', '--threads');
  const stalled = values.stalled === undefined ? 0 : positive(values.stalled, '--stalled');
  const tries = positive(values.tries ?? '1', '--tries');
  const pin = values.pin === true;
  const formats = (values.formats ?? Object.keys(FORMATS).join(',')).split(',').map((name) => {
    if (!(name in FORMATS)) throw new Error(`--formats: ${name} is none of ${Object.keys(FORMATS).join(', ')}`);
    return name as Format;
  });
  const flags = [
    '--http-threads', String(threads), '--engine-max-sequences', String(streams + stalled), '--engine-max-batch-tokens', String(Math.max(streams + stalled, 256)),
    ...(values['engine-threads'] === undefined ? [] : ['--threads', values['engine-threads']]),
    ...(values.model === undefined ? [] : ['--model', `${MODEL}=${values.model}`]), ...positionals,
  ];
  const builds: Record<string, string> = { ...(values.against === undefined ? {} : { other: resolve(values.against) }), this: join(packageRoot, 'dist', 'main.js') };

  let servers: Server[] = [];
  const alone: AloneRun[] = [];
  const measureAlone = async (): Promise<void> => {
    const server = await Server.start([join(import.meta.dirname, 'lib', 'engine-alone.js'), MODEL, String(streams), String(tokens), QUESTION], flags);
    try {
      if (pin) server.pin();
      const run = await calmest(tries, () => engineOf(server, seconds));
      alone.push(run);
      process.stdout.write(`engine alone: ${run.tokensPerSecond.toFixed(0)} tokens/s, ${run.engineUsPerToken.toFixed(2)} us of its thread per token, waited ${(100 * run.engineWaited).toFixed(1)} %\n`);
    } finally {
      server.stop();
    }
  };
  try {
    const figures: Figure[] = Object.keys(builds).flatMap((build) => formats.map((format) => ({ build, format, eventsPerSecond: spreadOf([]), frontUs: spreadOf([]), eventsPerCoreSecond: 0, runs: [] })));
    process.stdout.write(`${`${streams} streams`.padEnd(20)}events/s   events/read   us per event: front   main thread   engine   client   delay p50/p99 ms   answers/s   us of the front   engine waited\n`);
    for (let run = 0; run < runs; run++) {
      if (values.alone === true) await measureAlone();
      if (servers.length === 0) for (const main of Object.values(builds)) servers.push(await Server.start([main, 'serve'], flags));
      if (pin) for (const server of servers) server.pin();
      for (const format of formats) {
        for (const [at, build] of Object.keys(builds).entries()) {
          const measured = await calmest(tries, () => measure(servers[at] as Server, format, { streams, stalled, tokens, seconds, pin }));
          figures.find((figure) => figure.build === build && figure.format === format)?.runs.push(measured);
          process.stdout.write(rowOf(values.against === undefined ? format : `${format}, ${build}`, measured));
        }
      }
      if (values.alone === true) {
        for (const server of servers) server.stop();   // the engine alone has all the memory
        servers = [];
      }
    }
    if (values.alone === true) await measureAlone();
    for (const figure of figures) {
      figure.eventsPerSecond = spreadOf(figure.runs.map(({ eventsPerSecond }) => eventsPerSecond));
      figure.frontUs = spreadOf(figure.runs.map(({ frontUs }) => frontUs));
      figure.eventsPerCoreSecond = 1e6 / figure.frontUs.median;
      process.stdout.write(`${figure.build} build, ${figure.format}: ${figure.frontUs.median.toFixed(2)} us of the front per event (${figure.frontUs.min.toFixed(2)} to ${figure.frontUs.max.toFixed(2)}), ${figure.eventsPerCoreSecond.toFixed(0)} events per core and second\n`);
    }
    const aloneSpeed = spreadOf(alone.map(({ tokensPerSecond }) => tokensPerSecond)).median;
    if (values.alone === true) {
      for (const { build, format, runs: all } of figures) {
        const share = spreadOf(all.map(({ tokensPerSecond }) => tokensPerSecond)).median / aloneSpeed;
        process.stdout.write(`${build} build, ${format}: ${(100 * share).toFixed(1)} % of the engine alone\n`);
      }
    }
    if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ bench: 'streams', at: new Date().toISOString(), streams, stalled, tokens, seconds, threads, pin, flags: positionals, ...(values.alone === true ? { alone } : {}), figures }, null, 2)}\n`);
  } finally {
    for (const server of servers) server.stop();
  }
}

/** All threads of a process, on all processors but the first. */
function pinFront(pid: number): void {
  execFileSync('taskset', ['-acp', `1-${cpus().length - 1}`, String(pid)]);
}

function positive(text: string, name: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new Error(`${name} must be a number above 0`);
  return value;
}

function rowOf(label: string, run: Run): string {
  const delay = run.delayP50Ms === null || run.delayP99Ms === null ? '' : `${run.delayP50Ms.toFixed(2)} / ${run.delayP99Ms.toFixed(2)}`;
  return `${label.padEnd(16)}${run.eventsPerSecond.toFixed(0).padStart(12)}${run.eventsPerRead.toFixed(2).padStart(14)}${run.frontUs.toFixed(2).padStart(22)}${run.mainThreadUs.toFixed(2).padStart(14)}${run.engineUs.toFixed(2).padStart(9)}${run.clientUs.toFixed(2).padStart(9)}${delay.padStart(19)}${run.answersPerSecond.toFixed(0).padStart(12)}${(run.frontUsPerAnswer?.toFixed(0) ?? '').padStart(18)}${`${(100 * run.engineWaited).toFixed(1)} %`.padStart(16)}\n`;
}

class Server {
  private constructor(readonly port: number, private readonly process: ChildProcess, private readonly data: string) {}

  static async start(program: readonly [main: string, ...args: string[]], flags: readonly string[]): Promise<Server> {
    const data = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
    const child = spawn(process.execPath, [
      ...program, '--log', 'json', '--log-level', 'silent', '--port', '0', '--data-dir', data, '--api-key', KEY, '--limits-rpm', 'off', '--limits-tpm', 'off',
      '--limits-concurrency', 'off', '--engine-step-ms', '0', '--kv-bytes', '4GiB', ...flags,
    ], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [line] = (await Promise.race([once(createInterface({ input: child.stdout }), 'line'), once(child, 'exit').then(() => [''])])) as [string];
    if (line === '') throw new Error(`${program[0]}: the server did not start`);
    return new Server((JSON.parse(line) as { port: number }).port, child, data);
  }

  #threads(): { id: string; name: string }[] {
    const tasks = `/proc/${this.process.pid}/task`;
    return readdirSync(tasks).map((id) => ({ id, name: readFileSync(`${tasks}/${id}/comm`, 'utf8').trim() }));
  }

  /** Processor time so far, in seconds, and what the engine's thread waited for a processor. */
  times(): { engine: number; engineWaited: number; main: number; front: number } {
    const { pid } = this.process;
    const times = { engine: 0, engineWaited: 0, main: 0, front: 0 };
    for (const { id, name } of this.#threads()) {
      const [seconds = 0, waited = 0] = readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8').split(' ').map((nanoseconds) => Number(nanoseconds) / 1e9);
      if (name === 'monolith-engine') {
        times.engine += seconds;
        times.engineWaited += waited;
      } else if (name !== 'monolith-cpu') times.front += seconds;
      if (id === String(pid)) times.main = seconds;
    }
    return times;
  }

  pin(): void {
    pinFront(this.process.pid ?? 0);
    for (const { id, name } of this.#threads()) if (name === 'monolith-engine') execFileSync('taskset', ['-cp', '0', id]);
  }

  /** Counted so far: tokens decoded; of the delays the cumulative buckets. */
  async metrics(): Promise<{ tokens: number; delays: Map<number, number> }> {
    const page = await (await fetch(`http://127.0.0.1:${this.port}/metrics`, { headers: { authorization: `Bearer ${KEY}` } })).text();
    const tokens = [...page.matchAll(/^monolith_step_tokens_total\{.*phase="decode".*\} (\S+)$/gm)].reduce((sum, [, count]) => sum + Number(count), 0);
    const delays = new Map([...page.matchAll(/^monolith_event_delay_seconds_bucket\{le="([^"]+)".*\} (\S+)$/gm)].map(([, bound, count]) => [bound === '+Inf' ? Infinity : Number(bound), Number(count)] as const));
    return { tokens, delays };
  }

  stop(): void {
    this.process.kill('SIGKILL');
    rmSync(this.data, { recursive: true, force: true });
  }
}

/** Keeps `streams` streams open, one after the other in each place, and counts what arrives in the measured time. */
async function measure(server: Server, format: Format, { streams, stalled, tokens, seconds, pin }: Load): Promise<Run> {
  const { path, body } = FORMATS[format];
  const client = StreamClient.start({ port: server.port, path, headers: { Authorization: `Bearer ${KEY}`, 'Content-Type': 'application/json' }, body: JSON.stringify({ model: MODEL, stream: true, ignore_eos: true, ...body(tokens) }), streams, stalled });
  try {
    if (pin) pinFront(client.pid);
    await pause(1_000);
    const look = async () => ({ metrics: await server.metrics(), counts: await client.counts(), at: performance.now(), times: server.times() });
    const before = await look();
    await pause(seconds * 1_000);
    const after = await look();
    const delays = new Map([...after.metrics.delays].map(([bound, count]) => [bound, count - (before.metrics.delays.get(bound) ?? 0)]));
    const events = after.counts.events - before.counts.events;
    const answers = after.counts.answers - before.counts.answers;
    const us = (name: 'engine' | 'front' | 'main'): number => 1e6 * (after.times[name] - before.times[name]) / events;
    return {
      engineWaited: waitedShare(before, after), eventsPerSecond: 1_000 * events / (after.at - before.at), tokensPerSecond: 1_000 * (after.metrics.tokens - before.metrics.tokens) / (after.at - before.at), eventsPerRead: events / (after.counts.reads - before.counts.reads),
      answersPerSecond: 1_000 * answers / (after.at - before.at), frontUsPerAnswer: answers === 0 ? null : 1e6 * (after.times.front - before.times.front) / answers,
      engineUs: us('engine'), frontUs: us('front'), mainThreadUs: us('main'), clientUs: 1e6 * (after.counts.cpuSeconds - before.counts.cpuSeconds) / events,
      delayP50Ms: quantileMs(delays, 0.5), delayP99Ms: quantileMs(delays, 0.99),
    };
  } finally {
    await client.stop();
    await pause(200);   // the server notices
  }
}

interface Look { at: number; times: ReturnType<Server['times']> }
const waitedShare = (before: Look, after: Look): number => 1_000 * (after.times.engineWaited - before.times.engineWaited) / (after.at - before.at);

/** The first of so many runs in which the engine had its processor, or the one in which it waited least. */
async function calmest<T extends { engineWaited: number }>(tries: number, work: () => Promise<T>): Promise<T> {
  let best = await work();
  for (let i = 1; i < tries && best.engineWaited > 0.05; i++) {
    const next = await work();
    if (next.engineWaited < best.engineWaited) best = next;
  }
  return best;
}

/** Of a server that serves itself. */
async function engineOf(server: Server, seconds: number): Promise<AloneRun> {
  await pause(1_000);
  const look = async () => ({ metrics: await server.metrics(), at: performance.now(), times: server.times() });
  const before = await look();
  await pause(seconds * 1_000);
  const after = await look();
  const tokens = after.metrics.tokens - before.metrics.tokens;
  return { engineWaited: waitedShare(before, after), tokensPerSecond: 1_000 * tokens / (after.at - before.at), engineUsPerToken: 1e6 * (after.times.engine - before.times.engine) / tokens };
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Upper bound of the bucket in which a quantile lies. */
function quantileMs(cumulative: ReadonlyMap<number, number>, share: number): number | null {
  const total = cumulative.get(Infinity) ?? 0;
  if (total === 0) return null;
  for (const [bound, count] of cumulative) if (count >= share * total) return 1_000 * bound;
  return null;
}
