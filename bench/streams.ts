// How many stream events a second the server carries, and what one costs which of its threads: many open streams
// from one server process, read by another process that only counts. Processor time is the kernel's, by thread:
// the engine's own, those that compute for it, and all others, which are the front: the threads that answer, and
// what Node runs beside them. Events per second of the front's time is what one core could carry if the engine were
// never the limit. With --against two builds are measured in turn within the same seconds.
//
//   npm run bench -- streams --json OUT
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

import { packageRoot } from '../src/engine/load-addon.js';
import { spreadOf, type Spread } from './lib/statistics.js';
import { StreamClient } from './lib/stream-client.js';

const USAGE = `npm run bench -- streams [options]

  --model FILE         a GGUF file (default: the embedded model); the smaller, the more events
  --streams N          streams open at once (default 256)
  --seconds S          measured time per format and run (default 5), after 1 that is not counted
  --runs N             runs of each format (default 1)
  --threads N          threads that answer (--http-threads, default 1)
  --engine-threads N   threads that compute (--threads, default: one per core)
  --formats LIST       of chat, messages, responses (default all)
  --against FILE       another build's dist/main.js, measured in turn with this one
  --json OUT           write every figure to OUT
`;

const KEY = 'bench-streams-0000000';
const MODEL = 'tycho-1.0';
const QUESTION = 'Tell me a long story about a lighthouse.';

const FORMATS = {
  chat: { path: '/v1/chat/completions', body: { stream: true, max_tokens: 1_000, ignore_eos: true, messages: [{ role: 'user', content: QUESTION }] } },
  messages: { path: '/v1/messages', body: { stream: true, max_tokens: 1_000, ignore_eos: true, messages: [{ role: 'user', content: QUESTION }] } },
  responses: { path: '/v1/responses', body: { stream: true, store: false, max_output_tokens: 1_000, ignore_eos: true, input: QUESTION } },
} as const;

type Format = keyof typeof FORMATS;

/** One run. Processor time in microseconds per event, of the engine's thread (the forward pass included), of the front, of its main thread. */
interface Run { eventsPerSecond: number; eventsPerRead: number; engineUs: number; frontUs: number; mainThreadUs: number; clientUs: number; delayP50Ms: number | null; delayP99Ms: number | null }
interface Figure { build: string; format: Format; eventsPerSecond: Spread; frontUs: Spread; eventsPerCoreSecond: number; runs: Run[] }

export async function streamsBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args, strict: true, options: {
      model: text, streams: text, seconds: text, runs: text, threads: text, 'engine-threads': text, formats: text, against: text, json: text, help: { type: 'boolean' },
    },
  });
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  const streams = positive(values.streams ?? '256', '--streams');
  const seconds = positive(values.seconds ?? '5', '--seconds');
  const runs = positive(values.runs ?? '1', '--runs');
  const threads = positive(values.threads ?? '1', '--threads');
  const formats = (values.formats ?? Object.keys(FORMATS).join(',')).split(',').map((name) => {
    if (!(name in FORMATS)) throw new Error(`--formats: ${name} is none of ${Object.keys(FORMATS).join(', ')}`);
    return name as Format;
  });
  const flags = [
    '--http-threads', String(threads), '--engine-max-sequences', String(streams), '--engine-max-batch-tokens', String(Math.max(streams, 256)),
    ...(values['engine-threads'] === undefined ? [] : ['--threads', values['engine-threads']]),
    ...(values.model === undefined ? [] : ['--model', `${MODEL}=${values.model}`]),
  ];
  const builds: Record<string, string> = { ...(values.against === undefined ? {} : { other: resolve(values.against) }), this: join(packageRoot, 'dist', 'main.js') };

  const servers: Server[] = [];
  try {
    for (const main of Object.values(builds)) servers.push(await Server.start(main, flags));
    const figures: Figure[] = Object.keys(builds).flatMap((build) => formats.map((format) => ({ build, format, eventsPerSecond: spreadOf([]), frontUs: spreadOf([]), eventsPerCoreSecond: 0, runs: [] })));
    process.stdout.write(`${`${streams} streams`.padEnd(20)}events/s   events/read   us per event: front   main thread   engine   client   delay p50/p99 ms\n`);
    for (let run = 0; run < runs; run++) {
      for (const format of formats) {
        for (const [at, build] of Object.keys(builds).entries()) {
          const measured = await measure(servers[at] as Server, format, streams, seconds);
          figures.find((figure) => figure.build === build && figure.format === format)?.runs.push(measured);
          process.stdout.write(rowOf(values.against === undefined ? format : `${format}, ${build}`, measured));
        }
      }
    }
    for (const figure of figures) {
      figure.eventsPerSecond = spreadOf(figure.runs.map(({ eventsPerSecond }) => eventsPerSecond));
      figure.frontUs = spreadOf(figure.runs.map(({ frontUs }) => frontUs));
      figure.eventsPerCoreSecond = 1e6 / figure.frontUs.median;
      process.stdout.write(`${figure.build} build, ${figure.format}: ${figure.frontUs.median.toFixed(2)} us of the front per event (${figure.frontUs.min.toFixed(2)} to ${figure.frontUs.max.toFixed(2)}), ${figure.eventsPerCoreSecond.toFixed(0)} events per core and second\n`);
    }
    if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ bench: 'streams', at: new Date().toISOString(), streams, seconds, threads, figures }, null, 2)}\n`);
  } finally {
    for (const server of servers) server.stop();
  }
}

function positive(text: string, name: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new Error(`${name} must be a number above 0`);
  return value;
}

function rowOf(label: string, run: Run): string {
  const delay = run.delayP50Ms === null || run.delayP99Ms === null ? '' : `${run.delayP50Ms.toFixed(2)} / ${run.delayP99Ms.toFixed(2)}`;
  return `${label.padEnd(16)}${run.eventsPerSecond.toFixed(0).padStart(12)}${run.eventsPerRead.toFixed(2).padStart(14)}${run.frontUs.toFixed(2).padStart(22)}${run.mainThreadUs.toFixed(2).padStart(14)}${run.engineUs.toFixed(2).padStart(9)}${run.clientUs.toFixed(2).padStart(9)}${delay.padStart(19)}\n`;
}

class Server {
  private constructor(readonly port: number, private readonly process: ChildProcess, private readonly data: string) {}

  static async start(main: string, flags: readonly string[]): Promise<Server> {
    const data = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
    const child = spawn(process.execPath, [
      main, 'serve', '--log', 'json', '--log-level', 'silent', '--port', '0', '--data-dir', data, '--api-key', KEY, '--limits-rpm', 'off', '--limits-tpm', 'off',
      '--limits-concurrency', 'off', '--engine-step-ms', '0', '--kv-bytes', '4GiB', ...flags,
    ], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [line] = (await Promise.race([once(createInterface({ input: child.stdout }), 'line'), once(child, 'exit').then(() => [''])])) as [string];
    if (line === '') throw new Error(`${main}: the server did not start`);
    return new Server((JSON.parse(line) as { port: number }).port, child, data);
  }

  /** Processor time so far, in seconds. */
  times(): { engine: number; main: number; front: number } {
    const { pid } = this.process;
    const times = { engine: 0, main: 0, front: 0 };
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      const seconds = Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]) / 1e9;
      const name = readFileSync(`/proc/${pid}/task/${thread}/comm`, 'utf8').trim();
      if (name === 'monolith-engine') times.engine += seconds;
      else if (name !== 'monolith-cpu') times.front += seconds;
      if (thread === String(pid)) times.main = seconds;
    }
    return times;
  }

  /** Of the delays counted so far, the cumulative buckets. */
  async delays(): Promise<Map<number, number>> {
    const page = await (await fetch(`http://127.0.0.1:${this.port}/metrics`, { headers: { authorization: `Bearer ${KEY}` } })).text();
    return new Map([...page.matchAll(/^monolith_event_delay_seconds_bucket\{le="([^"]+)".*\} (\S+)$/gm)].map(([, bound, count]) => [bound === '+Inf' ? Infinity : Number(bound), Number(count)]));
  }

  stop(): void {
    this.process.kill('SIGKILL');
    rmSync(this.data, { recursive: true, force: true });
  }
}

/** Keeps `streams` streams open, one after the other in each place, and counts what arrives in the measured time. */
async function measure(server: Server, format: Format, streams: number, seconds: number): Promise<Run> {
  const { path, body } = FORMATS[format];
  const client = StreamClient.start({ port: server.port, path, headers: { Authorization: `Bearer ${KEY}`, 'Content-Type': 'application/json' }, body: JSON.stringify({ model: MODEL, ...body }), streams });
  try {
    await pause(1_000);
    const look = async () => ({ counts: await client.counts(), at: performance.now(), times: server.times() });
    const delaysBefore = await server.delays();
    const before = await look();
    await pause(seconds * 1_000);
    const after = await look();
    const delays = new Map([...await server.delays()].map(([bound, count]) => [bound, count - (delaysBefore.get(bound) ?? 0)]));
    const events = after.counts.events - before.counts.events;
    const us = (name: 'engine' | 'front' | 'main'): number => 1e6 * (after.times[name] - before.times[name]) / events;
    return {
      eventsPerSecond: 1_000 * events / (after.at - before.at), eventsPerRead: events / (after.counts.reads - before.counts.reads),
      engineUs: us('engine'), frontUs: us('front'), mainThreadUs: us('main'), clientUs: 1e6 * (after.counts.cpuSeconds - before.counts.cpuSeconds) / events,
      delayP50Ms: quantileMs(delays, 0.5), delayP99Ms: quantileMs(delays, 0.99),
    };
  } finally {
    await client.stop();
    await pause(200);   // the server notices
  }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Upper bound of the bucket in which a quantile lies. */
function quantileMs(cumulative: ReadonlyMap<number, number>, share: number): number | null {
  const total = cumulative.get(Infinity) ?? 0;
  if (total === 0) return null;
  for (const [bound, count] of cumulative) if (count >= share * total) return 1_000 * bound;
  return null;
}
