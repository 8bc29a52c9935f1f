// Measures the cost of an upstream model: the delay added to the first token, the CPU time per request, and the memory
// used by many concurrent streams. A fake upstream responds without a model. It shares a thread with the client, in a
// separate process without garbage collection (native/upstream_bench.cc). Direct requests and requests through the
// server are measured in turn within the same seconds, once the server's code has been JIT-compiled. The server reports
// how long its garbage collections take. The kernel reports how long each process was runnable but waiting for a
// processor, and what share of the machine other processes used.
//
//   npm run bench -- upstream --json OUT
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as after } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { packageRoot } from '../src/engine/load-addon.js';
import type { LoopTold } from './lib/loop-teller.js';
import { commit, machine } from './lib/machine.js';

const USAGE = `npm run bench -- upstream [options]

  --rate N       requests per second (default 1000)
  --seconds S    duration of each measurement (default 2), after half a second of warm-up
  --rounds N     measurements of each kind, alternating (default 10)
  --warm N       warm-up requests, eight concurrent, until the server's code is compiled (default 15000)
  --node FLAGS   Node.js flags of the server, as in --node="--max-semi-space-size=4"
  --collected    start every round with a full garbage collection like the one V8 makes after a hundred seconds
  --streams N    concurrently open streams (default 5000); 0 skips this part
  --json OUT     write all results to OUT
`;

const KEY = 'bench-upstream-0000';
const TICKS_PER_SECOND = 100;
/**
 * Rounds in which other processes used more than this share of the machine's CPU time are reported, but excluded from
 * `calm`.
 */
const CALM = 0.05;
const WARM_AT_ONCE = 8;

interface Target {
  port: number;
  key: string | null;
  model: string;
}

export async function upstreamBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    strict: true,
    options: {
      rate: text,
      seconds: text,
      rounds: text,
      streams: text,
      warm: text,
      node: text,
      json: text,
      collected: { type: 'boolean' },
      help: { type: 'boolean' },
    },
  });
  if (values.help === true) return void process.stdout.write(USAGE);
  const [rate, seconds, rounds, streams, warm] = [
    ['rate', 1_000],
    ['seconds', 2],
    ['rounds', 10],
    ['streams', 5_000],
    ['warm', 15_000],
  ].map(([name, fallback]) => Number((values as Record<string, unknown>)[name as string] ?? fallback)) as [
    number,
    number,
    number,
    number,
    number,
  ];

  const flags = (values.node ?? '').split(' ').filter((flag) => flag !== '');
  const load = [loadavg()];
  const collected = values.collected === true;
  const times = await latencies({ rate, seconds, rounds, warm, flags, collected });
  load.push(loadavg());
  const figures = {
    bench: 'upstream',
    at: new Date().toISOString(),
    machine: machine(),
    commit: commit(),
    node: flags,
    collected,
    load,
    rate,
    seconds,
    ...times,
    ...(streams === 0 ? {} : await memory(streams, flags)),
  };
  process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(figures, null, 2)}\n`);
}

/**
 * Alternates between direct and forwarded requests within seconds, so that other load on the machine affects both. The
 * quantiles cover all rounds.
 */
async function latencies({
  rate,
  seconds,
  rounds,
  warm,
  flags,
  collected,
}: {
  rate: number;
  seconds: number;
  rounds: number;
  warm: number;
  flags: readonly string[];
  collected: boolean;
}): Promise<object> {
  const ends = await Ends.start();
  try {
    return await withServer(ends.port, flags, async (through, server) => {
      const direct: Target = { port: ends.port, key: null, model: 'far' };
      const uncounted = Math.floor(rate / 2),
        counted = Math.round(rate * seconds);
      await ends.drive(through, rate, warm, 0, WARM_AT_ONCE);
      for (const way of [direct, through]) await ends.drive(way, rate, counted, 0);
      const cpu: number[] = [],
        told: LoopTold[] = [],
        waits: Waits[] = [],
        others: number[] = [],
        lateUs: number[] = [];
      const ways: [Driven[], Driven[]] = [[], []];
      for (let round = 0; round < rounds; round++) {
        ways[0].push(await ends.drive(direct, rate, uncounted, counted));
        await toldBy(server, collected ? 'collect' : 'tell');
        const before = cpuSeconds(server.pid as number),
          waited = waitsOf(server, ends.pid),
          share = foreign(server.pid as number, ends.pid);
        const these = await ends.drive(through, rate, uncounted, counted);
        others.push(rounded(share()));
        cpu.push(((cpuSeconds(server.pid as number) - before) * 1e6) / (counted + uncounted));
        waits.push(since(waited, waitsOf(server, ends.pid), counted + uncounted));
        told.push(await toldBy(server));
        lateUs.push(these.late_us);
        ways[1].push(these);
      }
      const spread = (each: readonly Driven[]): Spread => ({
        ...quantiles(each.flatMap(({ ms }) => ms)),
        rounds: each.map(({ ms }) => quantiles(ms)),
      });
      const added = (alone: Spread, with_: Spread): object =>
        Object.fromEntries(
          (['p50', 'p90', 'p99'] as const).map((at) => [
            at,
            {
              all: rounded(with_[at] - alone[at]),
              rounds: with_.rounds.map((one, index) => rounded(one[at] - alone.rounds[index]![at])),
            },
          ]),
        );
      const isCalm = (_: unknown, round: number): boolean => (others[round] as number) <= CALM;
      const [alone, with_, calmAlone, calmWith] = [
        spread(ways[0]),
        spread(ways[1]),
        spread(ways[0].filter(isCalm)),
        spread(ways[1].filter(isCalm)),
      ];
      return {
        warm,
        added_ms: added(alone, with_),
        calm: { most_of_others: CALM, rounds: calmWith.rounds.length, added_ms: added(calmAlone, calmWith) },
        of_others: others,
        direct_ms: alone,
        through_ms: with_,
        to_the_server_elsewhere_ms: quantiles(ways[1].flatMap(({ out_ms }) => out_ms)),
        client_late_us: lateUs,
        cpu_us_per_request: rounded([...cpu].sort((a, b) => a - b)[Math.floor(cpu.length / 2)] as number),
        waited_us_per_request: waits,
        failed: ways.flat().reduce((sum, { failed }) => sum + failed, 0),
        server: told,
      };
    });
  } finally {
    await ends.close();
  }
}

interface Quantiles {
  requests: number;
  p50: number;
  p90: number;
  p99: number;
  longest: number;
}
interface Spread extends Quantiles {
  rounds: Quantiles[];
}

const rounded = (value: number): number => Math.round(value * 1000) / 1000;

function quantiles(times: readonly number[]): Quantiles {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share: number): number =>
    rounded(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN);
  return { requests: sorted.length, p50: at(0.5), p90: at(0.9), p99: at(0.99), longest: at(1) };
}

async function toldBy(server: ChildProcess, order: 'tell' | 'collect' = 'tell'): Promise<LoopTold> {
  server.send(order);
  return (await once(server, 'message'))[0] as LoopTold;
}

/**
 * How long threads were runnable but waiting for a processor, in microseconds. For the server, the main thread is
 * counted separately from the rest, such as the garbage collector's helpers.
 */
interface Waits {
  server: number;
  helpers: number;
  ends: number;
}

function waitsOf(server: ChildProcess, ends: number): Waits {
  const us = (pid: number, which: (thread: number) => boolean): number =>
    readdirSync(`/proc/${pid}/task`)
      .map(Number)
      .filter(which)
      .reduce(
        (sum, thread) =>
          sum + Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'latin1').split(' ')[1]) / 1e3,
        0,
      );
  const of = server.pid as number;
  return {
    server: us(of, (thread) => thread === of),
    helpers: us(of, (thread) => thread !== of),
    ends: us(ends, () => true),
  };
}

/**
 * Starts measuring the share of CPU time that other processes use. Returns a function that reports the share so far.
 */
function foreign(...ours: number[]): () => number {
  const ticks = (): { busy: number; all: number } => {
    const all = readFileSync('/proc/stat', 'latin1').split('\n')[0]!.trim().split(/\s+/).slice(1, 9).map(Number);
    const sum = all.reduce((one, other) => one + other, 0);
    const own = [process.pid, ...ours].reduce((seconds, pid) => seconds + cpuSeconds(pid), 0) * TICKS_PER_SECOND;
    // time that is neither idle nor spent waiting for a disk
    return { busy: sum - (all[3] as number) - (all[4] as number) - own, all: sum };
  };
  const before = ticks();
  return () => {
    const now = ticks();
    return Math.max(0, (now.busy - before.busy) / Math.max(1, now.all - before.all));
  };
}

const since = (before: Waits, now: Waits, requests: number): Waits =>
  Object.fromEntries(
    Object.entries(now).map(([who, us]) => [who, rounded((us - before[who as keyof Waits]) / requests)]),
  ) as unknown as Waits;

async function memory(streams: number, flags: readonly string[]): Promise<object> {
  // The inter-token interval is long enough for all streams to be open at the same time, even on a busy machine.
  return withStandIn(1, 20_000, flags, async (through, server) => {
    const pid = server.pid as number;
    const idle = rssBytes(pid);
    const sockets: Socket[] = [];
    let begun = 0,
      failed = 0;
    for (let i = 0; i < streams; i++) {
      sockets.push(
        open(
          through,
          3,
          () => begun++,
          () => failed++,
        ),
      );
      if (i % 50 === 49) await after(10);
    }
    for (let waited = 0; begun + failed < streams && waited < 600; waited++) await after(100);
    await after(500);
    const rss = rssBytes(pid);
    for (const socket of sockets) socket.destroy();
    return {
      streams: {
        open: begun,
        failed,
        idle_mib: idle / 2 ** 20,
        rss_mib: rss / 2 ** 20,
        kib_each: (rss - idle) / 1024 / begun,
      },
    };
  });
}

/** The result of one `drive` command, as reported by native/upstream_bench.cc. */
interface Driven {
  failed: number;
  accepted: number;
  late_us: number;
  ms: number[];
  out_ms: number[];
}

/** The child process that contains both the client and the fake upstream. */
class Ends {
  private constructor(
    private readonly child: ChildProcess,
    private readonly lines: AsyncIterator<string>,
    readonly port: number,
  ) {}

  static async start(): Promise<Ends> {
    const child = spawn(join(packageRoot, 'build', 'native', 'upstream_bench'), { stdio: ['pipe', 'pipe', 'inherit'] });
    const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
    return new Ends(child, lines, (JSON.parse((await lines.next()).value as string) as { port: number }).port);
  }

  get pid(): number {
    return this.child.pid as number;
  }

  /**
   * Sends requests at their scheduled times, whether or not earlier requests have completed, but with at most `most` in
   * flight; 0 means no limit.
   */
  async drive(
    { port, key, model }: Target,
    rate: number,
    uncounted: number,
    counted: number,
    most = 0,
  ): Promise<Driven> {
    this.child.stdin!.write(`drive ${port} ${key ?? '-'} ${model} ${rate} ${uncounted} ${counted} ${most}\n`);
    return JSON.parse((await this.lines.next()).value as string) as Driven;
  }

  async close(): Promise<void> {
    await ended(this.child);
  }
}

const requestText = ({ port, key, model }: Target, tokens: number): string => {
  const body = JSON.stringify({
    model,
    stream: true,
    max_tokens: tokens,
    messages: [{ role: 'user', content: 'Tell me a long story about a lighthouse.' }],
  });
  return `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-type: application/json\r\n${key === null ? '' : `authorization: Bearer ${key}\r\n`}content-length: ${body.length}\r\n\r\n${body}`;
};

/** Opens a stream on its own connection and only reads from it. */
function open(target: Target, tokens: number, begun: () => void, failed: () => void): Socket {
  let isBegun = false;
  const socket = connect(target.port, '127.0.0.1', () => socket.write(requestText(target, tokens))).setEncoding(
    'latin1',
  );
  socket
    .on('data', (text: string) => {
      if (isBegun || !text.includes('word')) return;
      isBegun = true;
      begun();
    })
    .on('error', () => {
      if (!isBegun) failed();
    });
  return socket;
}

async function withStandIn<T>(
  firstMs: number,
  gapMs: number,
  flags: readonly string[],
  work: (through: Target, server: ChildProcess) => Promise<T>,
): Promise<T> {
  const standIn = spawn(
    process.execPath,
    [join(packageRoot, 'build', 'bench', 'lib', 'stand-in-server.js'), String(firstMs), String(gapMs)],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  try {
    return await withServer(Number(/\d+/.exec(await firstLine(standIn))?.[0]), flags, work);
  } finally {
    await ended(standIn);
  }
}

/** Starts the server, with the fake upstream on port `port`. */
async function withServer<T>(
  port: number,
  flags: readonly string[],
  work: (through: Target, server: ChildProcess) => Promise<T>,
): Promise<T> {
  const data = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
  const server = spawn(
    process.execPath,
    [
      ...flags,
      '--import',
      pathToFileURL(join(packageRoot, 'build', 'bench', 'lib', 'loop-teller.js')).href,
      join(packageRoot, 'dist', 'main.js'),
      'serve',
      '--log',
      'json',
      '--log-level',
      'error',
      '--port',
      '0',
      '--data-dir',
      data,
      '--model',
      `far=http://127.0.0.1:${port}/v1`,
      '--limits-rpm',
      'off',
      '--limits-tpm',
      'off',
      '--limits-concurrency',
      'off',
      '--upstream-concurrency',
      '100000',
      '--requests-days',
      '0',
    ],
    { env: { ...process.env, MONOLITH_API_KEY: KEY }, stdio: ['ignore', 'pipe', 'inherit', 'ipc'] },
  );
  try {
    const ready = JSON.parse(await firstLine(server)) as { port: number };
    server.stdout!.pipe(process.stderr, { end: false }); // forwards the output of --trace-gc and similar flags
    return await work({ port: ready.port, key: KEY, model: 'far' }, server);
  } finally {
    await ended(server);
    rmSync(data, { recursive: true, force: true });
  }
}

async function ended(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL');
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

async function firstLine(child: ChildProcess): Promise<string> {
  const lines = createInterface({ input: child.stdout! });
  for await (const line of lines) if (line.startsWith('{') || /^\d+$/.test(line)) return line;
  throw new Error('a server exited before it was ready');
}

function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

const rssBytes = (pid: number): number =>
  Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0) * 1024;
