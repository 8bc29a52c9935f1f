// What a model that runs elsewhere costs here: time added to the first token, processor time of a request, and the memory of
// many streams at once, in front of a stand-in that answers without a model. Stand-in, server and client are processes of
// their own; direct and through the server are measured in turn within the same seconds.
//
//   npm run bench -- upstream --json OUT
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as after } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { packageRoot } from '../src/engine/load-addon.js';

const USAGE = `npm run bench -- upstream [options]

  --rate N       requests a second (default 1000)
  --seconds S    of each measurement (default 4), after one that is not counted
  --rounds N     measurements each way, in turn (default 3)
  --streams N    open at once (default 5000); 0 leaves this out
  --json OUT     write every figure to OUT
`;

const KEY = 'bench-upstream-0000';
const TICKS_PER_SECOND = 100;

interface Target { port: number; key: string | null; model: string }
interface Latency { requests: number; failed: number; p50: number; p99: number }

export async function upstreamBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({ args, strict: true, options: { rate: text, seconds: text, rounds: text, streams: text, json: text, help: { type: 'boolean' } } });
  if (values.help === true) return void process.stdout.write(USAGE);
  const [rate, seconds, rounds, streams] = [['rate', 1_000], ['seconds', 4], ['rounds', 3], ['streams', 5_000]].map(([name, fallback]) => Number((values as Record<string, unknown>)[name as string] ?? fallback)) as [number, number, number, number];

  const figures = { rate, ...await latencies(rate, seconds, rounds), ...(streams === 0 ? {} : await memory(streams)) };
  process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(figures, null, 2)}\n`);
}

async function latencies(rate: number, seconds: number, rounds: number): Promise<object> {
  return withServers(0, 0, async (direct, through, pid) => {
    await drive(direct, rate, 1);
    await drive(through, rate, 1);
    const runs: { direct: Latency; through: Latency; cpuUs: number }[] = [];
    for (let round = 0; round < rounds; round++) {
      const alone = await drive(direct, rate, seconds);
      const before = cpuSeconds(pid);
      const with_ = await drive(through, rate, seconds);
      runs.push({ direct: alone, through: with_, cpuUs: (cpuSeconds(pid) - before) * 1e6 / with_.requests });
    }
    const median = (of: (run: (typeof runs)[number]) => number): number => [...runs].map(of).sort((a, b) => a - b)[Math.floor(runs.length / 2)] as number;
    return {
      direct_ms: { p50: median((run) => run.direct.p50), p99: median((run) => run.direct.p99) }, through_ms: { p50: median((run) => run.through.p50), p99: median((run) => run.through.p99) },
      added_ms: { p50: median((run) => run.through.p50 - run.direct.p50), p99: median((run) => run.through.p99 - run.direct.p99) },
      cpu_us_per_request: median((run) => run.cpuUs), failed: runs.reduce((sum, run) => sum + run.direct.failed + run.through.failed, 0), runs,
    };
  });
}

async function memory(streams: number): Promise<object> {
  // So long between two tokens that all are open at once, also on a machine with something else to do.
  return withServers(1, 20_000, async (_direct, through, pid) => {
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

/**
 * Requests at their times, whether the ones before have been answered or not. Those of the first half second are not
 * counted: every connection is made then, here and to the stand-in, which a service under way does not do.
 */
async function drive(target: Target, rate: number, seconds: number): Promise<Latency> {
  const times: number[] = [];
  const uncounted = rate / 2;
  const idle: Connection[] = [];
  const all: Connection[] = [];
  let failed = 0, left = 0;
  const total = Math.round(uncounted + rate * seconds);
  const begun = performance.now();
  await new Promise<void>((resolve) => {
    let sent = 0;
    const tick = (): void => {
      for (const due = Math.min(total, Math.floor((performance.now() - begun) * rate / 1000)); sent < due; sent++) {
        let connection = idle.pop();
        if (connection === undefined) all.push((connection = new Connection(target)));
        left++;
        const asked = connection;
        const counts = sent >= uncounted;
        asked.ask((ms, well) => {
          if (!well) failed++;
          else if (counts) times.push(ms);
          idle.push(asked);
          if (--left === 0 && sent >= total) resolve();
        });
      }
      if (sent < total) setTimeout(tick, 1);
    };
    tick();
  });
  for (const connection of all) connection.close();
  times.sort((a, b) => a - b);
  const at = (share: number): number => Math.round((times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? NaN) * 1000) / 1000;
  return { requests: times.length, failed, p50: at(0.5), p99: at(0.99) };
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

  constructor(target: Target) {
    this.#request = requestText(target, 1);
    this.#socket = connect(target.port, '127.0.0.1').setNoDelay(true).setEncoding('latin1');
    this.#socket.on('data', (text: string) => this.#read(text)).on('error', () => this.#end(false)).on('close', () => this.#end(false));
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

async function withServers<T>(firstMs: number, gapMs: number, work: (direct: Target, through: Target, pid: number) => Promise<T>): Promise<T> {
  const data = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
  const standIn = spawn(process.execPath, [join(packageRoot, 'build', 'bench', 'lib', 'stand-in-server.js'), String(firstMs), String(gapMs)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const port = Number(/\d+/.exec(await firstLine(standIn))?.[0]);
  const server = spawn(process.execPath, [
    join(packageRoot, 'dist', 'main.js'), 'serve', '--log', 'json', '--log-level', 'error', '--port', '0', '--data-dir', data, '--model', `far=http://127.0.0.1:${port}/v1`,
    '--limits-rpm', 'off', '--limits-tpm', 'off', '--limits-concurrency', 'off', '--upstream-concurrency', '100000', '--requests-days', '0',
  ], { env: { ...process.env, MONOLITH_API_KEY: KEY }, stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const ready = JSON.parse(await firstLine(server)) as { port: number };
    return await work({ port, key: null, model: 'far' }, { port: ready.port, key: KEY, model: 'far' }, server.pid as number);
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
