// Measures how many stream events per second the server can sustain, and the CPU time per event by thread. One process
// reads many streams from a server process and only counts the events. The kernel reports the CPU time of the engine
// thread, of its compute threads, and of all other threads. The latter are called the front end: the HTTP workers and
// the other Node.js threads. Events per second of front-end CPU time is what one core could sustain if the engine were
// never the bottleneck. With --against, two builds are measured in turn within the same seconds. With --alone, the
// speed of the engine without a server is measured before and after each run.
//
//   npm run bench -- streams --json OUT
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { packageRoot } from '../src/engine/load-addon.js';
import { spreadOf, type Spread } from './lib/statistics.js';
import { StreamClient } from './lib/stream-client.js';
import { AUTHORIZATION, MeasuredServer, pinFront, type ServerMetrics, type ThreadTimes } from './lib/stream-server.js';

const USAGE = `npm run bench -- streams [options] [-- flags of the server, e.g. --device cuda]

  --model FILE         GGUF file (default: the embedded model); a smaller model gives more events
  --streams N          concurrently open streams (default 256)
  --seconds S          measured time per format and run (default 5), after 1 second of warm-up
  --runs N             runs of each format (default 1)
  --tries N            maximum attempts per run until the engine waits less than 5 % of the time for a processor (default 1)
  --tokens N           tokens per response (default 1000); 1 measures the cost of requests
  --threads N          HTTP workers (--http-threads, default 1)
  --engine-threads N   compute threads (--threads, default: one per core)
  --formats LIST       formats to measure, of chat, messages, responses (default all)
  --stalled N          additional streams whose clients never read (default 0)
  --pin                pin the engine thread to the first processor and all others to the rest; needs taskset and
                       --engine-threads 1
  --against FILE       dist/main.js of another build, measured alternately with this one
  --alone              also measure the engine without a server, and report the share of its speed that remains
  --json OUT           write all results to OUT
`;

const MODEL = 'tycho-1.0';
const QUESTION = 'Tell me a long story about a lighthouse.';

const messages = [{ role: 'user', content: QUESTION }];
const FORMATS = {
  chat: { path: '/v1/chat/completions', body: (tokens: number) => ({ max_tokens: tokens, messages }) },
  messages: { path: '/v1/messages', body: (tokens: number) => ({ max_tokens: tokens, messages }) },
  responses: {
    path: '/v1/responses',
    body: (tokens: number) => ({ store: false, max_output_tokens: tokens, input: QUESTION }),
  },
} as const;

type Format = keyof typeof FORMATS;

interface Load {
  streams: number;
  stalled: number;
  tokens: number;
  seconds: number;
  pin: boolean;
}

/** The results of one run. CPU times are in microseconds per event. The engine's time includes the forward pass. */
interface Run {
  /** Share of the time in which the engine thread was runnable but had no processor. */
  engineWaited: number;
  eventsPerSecond: number;
  tokensPerSecond: number;
  eventsPerRead: number;
  engineUs: number;
  frontUs: number;
  mainThreadUs: number;
  clientUs: number;
  /**
   * Delay from the end of a step until the last of its events is written. The quantiles are the upper bounds of their
   * histogram buckets.
   */
  delayP50Ms: number | null;
  delayP99Ms: number | null;
  answersPerSecond: number;
  frontUsPerAnswer: number | null;
}

/** The results of an engine that serves no HTTP requests (engine-alone.ts). */
interface AloneRun {
  engineWaited: number;
  tokensPerSecond: number;
  engineUsPerToken: number;
}

class Figure {
  readonly runs: Run[] = [];

  constructor(
    readonly build: string,
    readonly format: Format,
  ) {}

  spread(value: 'eventsPerSecond' | 'tokensPerSecond' | 'frontUs'): Spread {
    return spreadOf(this.runs.map((run) => run[value]));
  }

  toJSON(): object {
    const { build, format, runs } = this;
    const frontUs = this.spread('frontUs');
    const eventsPerCoreSecond = 1e6 / frontUs.median;
    return { build, format, eventsPerSecond: this.spread('eventsPerSecond'), frontUs, eventsPerCoreSecond, runs };
  }
}

export async function streamsBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean' } as const;
  const { values, positionals } = parseArgs({
    args,
    strict: true,
    allowPositionals: true,
    options: {
      model: text,
      streams: text,
      seconds: text,
      runs: text,
      tries: text,
      tokens: text,
      threads: text,
      'engine-threads': text,
      formats: text,
      stalled: text,
      pin: flag,
      against: text,
      alone: flag,
      json: text,
      help: flag,
    },
  });
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  const load: Load = {
    streams: positive(values.streams ?? '256', '--streams'),
    stalled: values.stalled === undefined ? 0 : positive(values.stalled, '--stalled'),
    tokens: positive(values.tokens ?? '1000', '--tokens'),
    seconds: positive(values.seconds ?? '5', '--seconds'),
    pin: values.pin === true,
  };
  const runs = positive(values.runs ?? '1', '--runs');
  const tries = positive(values.tries ?? '1', '--tries');
  const threads = positive(values.threads ?? '1', '--threads');
  const formats = (values.formats ?? Object.keys(FORMATS).join(',')).split(',').map((name) => {
    if (!(name in FORMATS)) throw new Error(`--formats: ${name} is not one of ${Object.keys(FORMATS).join(', ')}`);
    return name as Format;
  });
  const sequences = load.streams + load.stalled;
  const flags = [
    '--http-threads',
    String(threads),
    '--engine-max-sequences',
    String(sequences),
    '--engine-max-batch-tokens',
    String(Math.max(sequences, 256)),
    ...(values['engine-threads'] === undefined ? [] : ['--threads', values['engine-threads']]),
    ...(values.model === undefined ? [] : ['--model', `${MODEL}=${values.model}`]),
    ...positionals,
  ];
  const builds = [
    ...(values.against === undefined ? [] : [{ name: 'other', main: resolve(values.against) }]),
    { name: 'this', main: join(packageRoot, 'dist', 'main.js') },
  ];

  const started = async (program: [string, ...string[]]): Promise<MeasuredServer> => {
    const server = await MeasuredServer.start(program, flags);
    if (load.pin) server.pin();
    return server;
  };
  const alone: AloneRun[] = [];
  const measureAlone = async (): Promise<void> => {
    const main = join(import.meta.dirname, 'lib', 'engine-alone.js');
    const server = await started([main, MODEL, String(load.streams), String(load.tokens), QUESTION]);
    try {
      const run = await calmest(tries, () => engineOf(server, load.seconds));
      alone.push(run);
      const costs = `${run.engineUsPerToken.toFixed(2)} us of engine thread time per token`;
      const waited = `waited ${percent(run.engineWaited)}`;
      process.stdout.write(`engine alone: ${run.tokensPerSecond.toFixed(0)} tokens/s, ${costs}, ${waited}\n`);
    } finally {
      server.stop();
    }
  };

  const figures = builds.flatMap(({ name }) => formats.map((format) => new Figure(name, format)));
  let servers: MeasuredServer[] = [];
  const stopServers = (): void => {
    for (const server of servers) server.stop();
    servers = [];
  };
  try {
    process.stdout.write(table(`${load.streams} streams`, COLUMNS));
    for (let run = 0; run < runs; run++) {
      if (values.alone === true) await measureAlone();
      if (servers.length === 0) for (const { main } of builds) servers.push(await started([main, 'serve']));
      for (const format of formats) {
        for (const [at, { name }] of builds.entries()) {
          const measured = await calmest(tries, () => measure(servers[at] as MeasuredServer, format, load));
          figures.find((figure) => figure.build === name && figure.format === format)?.runs.push(measured);
          process.stdout.write(table(builds.length === 1 ? format : `${format}, ${name}`, cellsOf(measured)));
        }
      }
      if (values.alone === true) stopServers(); // so that the engine without a server has all the memory
    }
    if (values.alone === true) await measureAlone();
  } finally {
    stopServers();
  }

  const aloneSpeed = spreadOf(alone.map(({ tokensPerSecond }) => tokensPerSecond)).median;
  for (const figure of figures) {
    const { median, min, max } = figure.spread('frontUs');
    const costs = `${median.toFixed(2)} us of front-end time per event (${min.toFixed(2)} to ${max.toFixed(2)})`;
    const share = percent(figure.spread('tokensPerSecond').median / aloneSpeed);
    const carried = `${(1e6 / median).toFixed(0)} events per second and core`;
    const beside = alone.length === 0 ? '' : `; ${share} of the speed of the engine alone`;
    process.stdout.write(`${figure.build} build, ${figure.format}: ${costs}, ${carried}${beside}\n`);
  }
  if (values.json === undefined) return;
  const result = {
    bench: 'streams',
    at: new Date().toISOString(),
    ...load,
    threads,
    flags: positionals,
    ...(alone.length > 0 ? { alone } : {}),
    figures,
  };
  writeFileSync(values.json, `${JSON.stringify(result, null, 2)}\n`);
}

function positive(text: string, name: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new Error(`${name} must be a number above 0`);
  return value;
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

const COLUMNS = [
  'events/s',
  'events/read',
  'us/event: front',
  'main thread',
  'engine',
  'client',
  'delay p50/p99 ms',
  'answers/s',
  'front us/answer',
  'engine waited',
];

function cellsOf(run: Run): string[] {
  const delays = [run.delayP50Ms, run.delayP99Ms].map((ms) => ms?.toFixed(2) ?? '');
  return [
    run.eventsPerSecond.toFixed(0),
    run.eventsPerRead.toFixed(2),
    run.frontUs.toFixed(2),
    run.mainThreadUs.toFixed(2),
    run.engineUs.toFixed(2),
    run.clientUs.toFixed(2),
    delays.join(' / '),
    run.answersPerSecond.toFixed(0),
    run.frontUsPerAnswer?.toFixed(0) ?? '',
    percent(run.engineWaited),
  ];
}

function table(label: string, cells: readonly string[]): string {
  return `${label.padEnd(16)}${cells.map((cell, i) => cell.padStart((COLUMNS[i]?.length ?? 0) + 3)).join('')}\n`;
}

interface Look {
  at: number;
  metrics: ServerMetrics;
  times: ThreadTimes;
}

async function look(server: MeasuredServer): Promise<Look> {
  return { metrics: await server.metrics(), at: performance.now(), times: server.times() };
}

interface Passed {
  seconds: number;
  tokens: number;
  times: ThreadTimes;
  engineWaited: number;
}

/** Returns the differences between two snapshots. */
function between(before: Look, after: Look): Passed {
  const seconds = (after.at - before.at) / 1_000;
  const of = (name: keyof ThreadTimes): number => after.times[name] - before.times[name];
  const times = { engine: of('engine'), engineWaited: of('engineWaited'), main: of('main'), front: of('front') };
  const tokens = after.metrics.tokens - before.metrics.tokens;
  return { seconds, tokens, times, engineWaited: times.engineWaited / seconds };
}

/**
 * Returns the first run, out of at most `tries`, in which the engine did not have to wait for a processor, or else the
 * run in which the engine waited the least.
 */
async function calmest<T extends { engineWaited: number }>(tries: number, work: () => Promise<T>): Promise<T> {
  let best = await work();
  for (let i = 1; i < tries && best.engineWaited > 0.05; i++) {
    const next = await work();
    if (next.engineWaited < best.engineWaited) best = next;
  }
  return best;
}

/**
 * Keeps the number of open streams constant by replacing each stream that ends, and counts the events in the interval.
 */
async function measure(server: MeasuredServer, format: Format, load: Load): Promise<Run> {
  const { streams, stalled, tokens, seconds, pin } = load;
  const { path, body } = FORMATS[format];
  const client = StreamClient.start({
    port: server.port,
    path,
    headers: { Authorization: AUTHORIZATION, 'Content-Type': 'application/json' },
    body: JSON.stringify({ model: MODEL, stream: true, ignore_eos: true, ...body(tokens) }),
    streams,
    stalled,
  });
  try {
    if (pin) pinFront(client.pid);
    await pause(1_000);
    const before = { counts: await client.counts(), ...(await look(server)) };
    await pause(seconds * 1_000);
    const after = { counts: await client.counts(), ...(await look(server)) };
    const { seconds: passed, tokens: decoded, times, engineWaited } = between(before, after);
    const delaysBefore = before.metrics.delays;
    const delays = new Map([...after.metrics.delays].map(([bound, n]) => [bound, n - (delaysBefore.get(bound) ?? 0)]));
    const of = (name: 'events' | 'reads' | 'answers' | 'cpuSeconds') => after.counts[name] - before.counts[name];
    const events = of('events');
    const answers = of('answers');
    const us = (cpuSeconds: number): number => (1e6 * cpuSeconds) / events;
    return {
      engineWaited,
      eventsPerSecond: events / passed,
      tokensPerSecond: decoded / passed,
      eventsPerRead: events / of('reads'),
      engineUs: us(times.engine),
      frontUs: us(times.front),
      mainThreadUs: us(times.main),
      clientUs: us(of('cpuSeconds')),
      delayP50Ms: quantileMs(delays, 0.5),
      delayP99Ms: quantileMs(delays, 0.99),
      answersPerSecond: answers / passed,
      frontUsPerAnswer: answers === 0 ? null : (1e6 * times.front) / answers,
    };
  } finally {
    await client.stop();
    await pause(200); // give the server time to notice
  }
}

/** Measures a server that generates for itself and has no other client (engine-alone.ts). */
async function engineOf(server: MeasuredServer, seconds: number): Promise<AloneRun> {
  await pause(1_000);
  const before = await look(server);
  await pause(seconds * 1_000);
  const { seconds: passed, tokens, times, engineWaited } = between(before, await look(server));
  return { engineWaited, tokensPerSecond: tokens / passed, engineUsPerToken: (1e6 * times.engine) / tokens };
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Returns the upper bound of the bucket that contains the quantile. */
function quantileMs(cumulative: ReadonlyMap<number, number>, share: number): number | null {
  const total = cumulative.get(Infinity) ?? 0;
  if (total === 0) return null;
  for (const [bound, count] of cumulative) if (count >= share * total) return 1_000 * bound;
  return null;
}
