// What a model that runs elsewhere costs here: time added to the first token, processor time of a request, and the memory of
// many streams at once, in front of a stand-in that answers without a model. Stand-in, server and client are processes of
// their own; direct and through the server are measured in turn within the same seconds. The server tells how long its
// collections of garbage took, and the kernel how long each process was ready to run and had to wait for a processor.
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

  --rate N       requests a second (default 1000)
  --seconds S    of each measurement (default 2), after half a second that is not counted
  --rounds N     measurements each way, in turn (default 10)
  --node FLAGS   for the server, as in --node="--max-semi-space-size=4"
  --streams N    open at once (default 5000); 0 leaves this out
  --json OUT     write every figure to OUT
`;

const KEY = 'bench-upstream-0000';
const TICKS_PER_SECOND = 100;
/** Each way, before anything is counted: a server that has just started compiles while it answers. */
const WARM_S = 4;

interface Target { port: number; key: string | null; model: string }

export async function upstreamBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({ args, strict: true, options: { rate: text, seconds: text, rounds: text, streams: text, node: text, json: text, help: { type: 'boolean' } } });
  if (values.help === true) return void process.stdout.write(USAGE);
  const [rate, seconds, rounds, streams] = [['rate', 1_000], ['seconds', 2], ['rounds', 10], ['streams', 5_000]].map(([name, fallback]) => Number((values as Record<string, unknown>)[name as string] ?? fallback)) as [number, number, number, number];

  const flags = (values.node ?? '').split(' ').filter((flag) => flag !== '');
  const load = [loadavg()];
  const times = await latencies(rate, seconds, rounds, flags);
  load.push(loadavg());
  const figures = { bench: 'upstream', at: new Date().toISOString(), machine: machine(), commit: commit(), node: flags, load, rate, seconds, ...times, ...(streams === 0 ? {} : await memory(streams, flags)) };
  process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(figures, null, 2)}\n`);
}

/**
 * The same connections are driven both ways in turn, within seconds, so that what else the machine does falls on both alike. Quantiles
 * are of all rounds together; the range is that of the rounds.
 */
async function latencies(rate: number, seconds: number, rounds: number, flags: readonly string[]): Promise<object> {
  return withServers(0, 0, flags, async (direct, through, server, standIn) => {
    const ways = [new Driver(direct), new Driver(through)] as const;
    for (const way of ways) await way.drive(rate, WARM_S);
    await toldBy(server);
    const cpu: number[] = [], told: LoopTold[] = [], waits: Waits[] = [];
    const times: [number[][], number[][]] = [[], []];
    for (let round = 0; round < rounds; round++) {
      times[0].push(await ways[0].drive(rate, seconds));
      await toldBy(server);
      const before = cpuSeconds(server.pid as number), waited = waitsOf(server, standIn);
      const these = await ways[1].drive(rate, seconds);
      cpu.push((cpuSeconds(server.pid as number) - before) * 1e6 / (these.length + rate / 2));
      waits.push(since(waited, waitsOf(server, standIn), these.length + rate / 2));
      told.push(await toldBy(server));
      times[1].push(these);
    }
    for (const way of ways) way.close();
    const [alone, with_] = times.map((each) => ({ ...quantiles(each.flat()), rounds: each.map(quantiles) })) as [Spread, Spread];
    const added = (at: 'p50' | 'p90' | 'p99'): object => ({ all: rounded(with_[at] - alone[at]), rounds: with_.rounds.map((one, index) => rounded(one[at] - alone.rounds[index]![at])) });
    return {
      added_ms: { p50: added('p50'), p90: added('p90'), p99: added('p99') }, direct_ms: alone, through_ms: with_,
      cpu_us_per_request: rounded([...cpu].sort((a, b) => a - b)[Math.floor(cpu.length / 2)] as number), waited_us_per_request: waits, failed: ways[0].failed + ways[1].failed, server: told,
    };
  });
}

interface Quantiles { requests: number; p50: number; p90: number; p99: number; longest: number }
interface Spread extends Quantiles { rounds: Quantiles[] }

const rounded = (value: number): number => Math.round(value * 1000) / 1000;

function quantiles(times: readonly number[]): Quantiles {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share: number): number => rounded(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN);
  return { requests: sorted.length, p50: at(0.5), p90: at(0.9), p99: at(0.99), longest: at(1) };
}

async function toldBy(server: ChildProcess): Promise<LoopTold> {
  server.send('tell');
  return (await once(server, 'message'))[0] as LoopTold;
}

/** Microseconds that threads were ready to run and had to wait for a processor: of the server its answering thread and the others (the collector's helpers among them). */
interface Waits { server: number; helpers: number; stand_in: number; client: number }

function waitsOf(server: ChildProcess, standIn: ChildProcess): Waits {
  const us = (pid: number, which: (thread: number) => boolean): number => readdirSync(`/proc/${pid}/task`).map(Number).filter(which)
    .reduce((sum, thread) => sum + Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'latin1').split(' ')[1]) / 1e3, 0);
  const [of, behind] = [server.pid as number, standIn.pid as number];
  return { server: us(of, (thread) => thread === of), helpers: us(of, (thread) => thread !== of), stand_in: us(behind, () => true), client: us(process.pid, () => true) };
}

const since = (before: Waits, now: Waits, requests: number): Waits =>
  Object.fromEntries(Object.entries(now).map(([who, us]) => [who, rounded((us - before[who as keyof Waits]) / requests)])) as unknown as Waits;

async function memory(streams: number, flags: readonly string[]): Promise<object> {
  // So long between two tokens that all are open at once, also on a machine with something else to do.
  return withServers(1, 20_000, flags, async (_direct, through, server) => {
    const pid = server.pid as number;
    const idle = rssBytes(pid);
    const sockets: Socket[] = [];
    let begun = 0, failed = 0;
    for (let i = 0; i < streams; i++) {
      sockets.push(open(through, 3, () => begun++, () => failed++));
      if (i % 50 === 49) await after(10);
    }
    for (let waited = 0; begun + failed < streams && waited < 600; waited++) await after(100);
    await after(500);
    const rss = rssBytes(pid);
    for (const socket of sockets) socket.destroy();
    return { streams: { open: begun, failed, idle_mib: idle / 2 ** 20, rss_mib: rss / 2 ** 20, kib_each: (rss - idle) / 1024 / begun } };
  });
}

/** Requests at their times, whether the ones before have been answered or not, on connections that are kept. */
class Driver {
  readonly #idle: Connection[] = [];
  readonly #all: Connection[] = [];
  failed = 0;

  constructor(private readonly target: Target) {}

  /** Milliseconds to the first token of each, but of the first half second: what a pause has let go is fetched back then. */
  async drive(rate: number, seconds: number): Promise<number[]> {
    const times: number[] = [];
    const uncounted = rate / 2, total = Math.round(uncounted + rate * seconds);
    const begun = performance.now();
    let left = 0, sent = 0;
    await new Promise<void>((resolve) => {
      const tick = (): void => {
        for (const due = Math.min(total, Math.floor((performance.now() - begun) * rate / 1000)); sent < due; sent++) {
          let connection = this.#idle.pop();
          while (connection?.isClosed === true) connection = this.#idle.pop();
          if (connection === undefined) this.#all.push((connection = new Connection(this.target)));
          left++;
          const asked = connection, counts = sent >= uncounted;
          asked.ask((ms, well) => {
            if (!well) this.failed++;
            else if (counts) times.push(ms);
            this.#idle.push(asked);
            if (--left === 0 && sent >= total) resolve();
          });
        }
        if (sent < total) setTimeout(tick, 1);
      };
      tick();
    });
    return times;
  }

  close(): void {
    for (const connection of this.#all) connection.close();
  }
}

const requestText = ({ port, key, model }: Target, tokens: number): string => {
  const body = JSON.stringify({ model, stream: true, max_tokens: tokens, messages: [{ role: 'user', content: 'Tell me a long story about a lighthouse.' }] });
  return `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-type: application/json\r\n${key === null ? '' : `authorization: Bearer ${key}\r\n`}content-length: ${body.length}\r\n\r\n${body}`;
};

/** One keep-alive connection; one request at a time. */
class Connection {
  readonly #socket: Socket;
  readonly #request: string;
  #sentAt = 0;
  #firstMs: number | null = null;
  #tail = '';
  #done: ((ms: number, well: boolean) => void) | null = null;
  isClosed = false;

  constructor(target: Target) {
    this.#request = requestText(target, 1);
    this.#socket = connect(target.port, '127.0.0.1').setNoDelay(true).setEncoding('latin1');
    this.#socket.on('data', (text: string) => this.#read(text)).on('error', () => this.#end(false)).on('close', () => {
      this.isClosed = true;
      this.#end(false);
    });
  }

  ask(done: (ms: number, well: boolean) => void): void {
    this.#done = done;
    this.#firstMs = null;
    this.#tail = '';
    this.#sentAt = performance.now();
    this.#socket.write(this.#request);
  }

  close(): void {
    this.#done = null;
    this.#socket.destroy();
  }

  #read(text: string): void {
    this.#tail += text;
    if (this.#firstMs === null && this.#tail.includes('word')) this.#firstMs = performance.now() - this.#sentAt;
    if (this.#tail.endsWith('0\r\n\r\n')) this.#end(this.#firstMs !== null);
  }

  #end(well: boolean): void {
    const done = this.#done;
    this.#done = null;
    done?.(this.#firstMs ?? 0, well);
  }
}

/** A stream of its own connection that is read and nothing else. */
function open(target: Target, tokens: number, begun: () => void, failed: () => void): Socket {
  let isBegun = false;
  const socket = connect(target.port, '127.0.0.1', () => socket.write(requestText(target, tokens))).setEncoding('latin1');
  socket.on('data', (text: string) => {
    if (isBegun || !text.includes('word')) return;
    isBegun = true;
    begun();
  }).on('error', () => { if (!isBegun) failed(); });
  return socket;
}

async function withServers<T>(firstMs: number, gapMs: number, flags: readonly string[], work: (direct: Target, through: Target, server: ChildProcess, standIn: ChildProcess) => Promise<T>): Promise<T> {
  const data = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
  const standIn = spawn(process.execPath, [join(packageRoot, 'build', 'bench', 'lib', 'stand-in-server.js'), String(firstMs), String(gapMs)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const port = Number(/\d+/.exec(await firstLine(standIn))?.[0]);
  const server = spawn(process.execPath, [
    ...flags, '--import', pathToFileURL(join(packageRoot, 'build', 'bench', 'lib', 'loop-teller.js')).href, join(packageRoot, 'dist', 'main.js'), 'serve', '--log', 'json', '--log-level', 'error', '--port', '0', '--data-dir', data, '--model', `far=http://127.0.0.1:${port}/v1`,
    '--limits-rpm', 'off', '--limits-tpm', 'off', '--limits-concurrency', 'off', '--upstream-concurrency', '100000', '--requests-days', '0',
  ], { env: { ...process.env, MONOLITH_API_KEY: KEY }, stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
  try {
    const ready = JSON.parse(await firstLine(server)) as { port: number };
    return await work({ port, key: null, model: 'far' }, { port: ready.port, key: KEY, model: 'far' }, server, standIn);
  } finally {
    for (const child of [server, standIn]) {
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    }
    rmSync(data, { recursive: true, force: true });
  }
}

async function firstLine(child: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: child.stdout! })) return line;
  throw new Error('a server ended before it was ready');
}

function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

const rssBytes = (pid: number): number => Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0) * 1024;
