// Compares the HTTP servers (http.server uws and node). Each HTTP server runs in its own process. The benchmark
// measures both in alternating turns, so that other load on the machine affects both equally. The client's cost is the
// same for both.
//
//   npm run bench -- http --servers --json OUT
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, get, request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { packageRoot } from '../src/engine/load-addon.js';
import { spreadOf } from './lib/statistics.js';

const KEY = 'bench-http-0000000000';
const KINDS = ['uws', 'node'] as const;
type Kind = (typeof KINDS)[number];

const SEQUENTIAL = 400;
const CONCURRENT = 2_000;
const SOCKETS = 64;
const STREAMS = 16;
const STREAM_TOKENS = 128;
const IDLE_CONNECTIONS = 8_000;

interface RunningServer {
  port: number;
  pid: number;
  stop(): void;
}

/** Measurements of one turn. CPU time covers the server's main thread, which runs HTTP but not the engine. */
interface Turn {
  /** Median and 99th percentile latency of requests sent one after another on one connection, in ms. */
  requestMs: number;
  requestP99Ms: number;
  requestCpuUs: number;
  /** Requests per second over 64 connections. */
  requestsPerSecond: number;
  /** Median time to the first token of streams that run one after another, in ms. */
  firstTokenMs: number;
  tokenCpuUs: number;
}

/** Memory and latency while many connections are open and idle. */
interface Idle {
  kibPerConnection: number;
  requestMs: number;
}

export async function compareHttpServers(turns: number, json: string | undefined): Promise<void> {
  const servers = new Map<Kind, RunningServer>();
  try {
    for (const kind of KINDS) servers.set(kind, await start(kind));
    const done: Record<Kind, Turn[]> = { uws: [], node: [] };
    // Measured before the turns, because garbage from the turns would hide the memory that connections use.
    const idle = {} as Record<Kind, Idle>;
    for (const kind of KINDS) idle[kind] = await withIdleConnections(servers.get(kind) as RunningServer);
    for (let turn = -1; turn < turns; turn++) {
      for (const kind of turn % 2 === 0 ? KINDS : KINDS.toReversed()) {
        const one = await measure(servers.get(kind) as RunningServer);
        if (turn >= 0) done[kind].push(one); // the first turn warms up
      }
    }
    const medians = (kind: Kind): Turn & Idle => ({
      ...(Object.fromEntries(
        Object.keys(done[kind][0] as Turn).map((name) => [
          name,
          spreadOf(done[kind].map((turn) => turn[name as keyof Turn])).median,
        ]),
      ) as unknown as Turn),
      kibPerConnection: idle[kind].kibPerConnection,
      requestMs: spreadOf(done[kind].map(({ requestMs }) => requestMs)).median,
    });
    const [uws, node] = [medians('uws'), medians('node')];
    process.stdout.write('median of the turns           uws       node   node / uws\n');
    for (const name of Object.keys(uws) as (keyof typeof uws)[])
      process.stdout.write(
        `${name.padEnd(22)}${uws[name].toFixed(3).padStart(11)}${node[name].toFixed(3).padStart(11)}${(node[name] / uws[name]).toFixed(2).padStart(13)}\n`,
      );
    process.stdout.write(
      `with ${IDLE_CONNECTIONS} idle connections, a request takes ${idle.uws.requestMs.toFixed(3)} ms (uws) and ${idle.node.requestMs.toFixed(3)} ms (node)\n`,
    );
    if (json !== undefined) {
      const result = { bench: 'http servers', at: new Date().toISOString(), node: process.version, turns: done, idle };
      writeFileSync(json, `${JSON.stringify(result, null, 2)}\n`);
    }
  } finally {
    for (const server of servers.values()) server.stop();
  }
}

async function start(kind: Kind): Promise<RunningServer> {
  const data = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
  const off = ['rpm', 'tpm', 'concurrency', 'event-loop-ms'].flatMap((limit) => [`--limits-${limit}`, 'off']);
  const flags = ['--log', 'json', '--log-level', 'silent', '--port', '0', '--engine-threads', '1', ...off];
  const child = spawn(
    process.execPath,
    [join(packageRoot, 'dist', 'main.js'), 'serve', '--data-dir', data, '--http-server', kind, ...flags],
    { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, MONOLITH_API_KEY: KEY } },
  );
  const [line] = (await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    once(child, 'exit').then(() => ['']),
  ])) as [string];
  if (line === '') throw new Error(`the server (${kind}) did not start`);
  return {
    port: (JSON.parse(line) as { port: number }).port,
    pid: child.pid ?? 0,
    stop: () => {
      child.kill('SIGKILL');
      rmSync(data, { recursive: true, force: true });
    },
  };
}

/** CPU time of a process's main thread, in microseconds. */
const cpuUs = (pid: number): number =>
  Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1_000;

const residentKib = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);

async function measure({ port, pid }: RunningServer): Promise<Turn> {
  const one = new Agent({ keepAlive: true, maxSockets: 1 });
  const many = new Agent({ keepAlive: true, maxSockets: SOCKETS });
  try {
    const took: number[] = [];
    let before = cpuUs(pid);
    for (let i = 0; i < SEQUENTIAL; i++) took.push(await list(port, one));
    const requestCpuUs = (cpuUs(pid) - before) / SEQUENTIAL;
    const began = performance.now();
    await Promise.all(Array.from({ length: CONCURRENT }, () => list(port, many)));
    const requestsPerSecond = CONCURRENT / ((performance.now() - began) / 1_000);
    const first: number[] = [];
    before = cpuUs(pid);
    for (let i = 0; i < STREAMS; i++) first.push(await stream(port, one));
    const tokenCpuUs = (cpuUs(pid) - before) / (STREAMS * STREAM_TOKENS);
    took.sort((a, b) => a - b);
    return {
      requestMs: spreadOf(took).median,
      requestP99Ms: took[Math.floor(took.length * 0.99)] ?? NaN,
      requestCpuUs,
      requestsPerSecond,
      firstTokenMs: spreadOf(first).median,
      tokenCpuUs,
    };
  } finally {
    one.destroy();
    many.destroy();
  }
}

async function withIdleConnections({ port, pid }: RunningServer): Promise<Idle> {
  const few = new Agent({ keepAlive: true, maxSockets: SOCKETS });
  // Let the heap grow to its usual size.
  await Promise.all(Array.from({ length: IDLE_CONNECTIONS }, () => list(port, few)));
  few.destroy();
  await sleep(1_000);
  const before = residentKib(pid);
  // Opens connections in batches that fit the listening socket's backlog.
  const agents = Array.from({ length: IDLE_CONNECTIONS / 250 }, () => new Agent({ keepAlive: true }));
  try {
    for (const agent of agents) await Promise.all(Array.from({ length: 250 }, () => list(port, agent)));
    await sleep(1_000);
    const kibPerConnection = (residentKib(pid) - before) / IDLE_CONNECTIONS;
    const took: number[] = [];
    for (let i = 0; i < SEQUENTIAL; i++) took.push(await list(port, agents.at(-1) as Agent));
    return { kibPerConnection, requestMs: spreadOf(took).median };
  } finally {
    for (const agent of agents) agent.destroy();
  }
}

/** Resolves to the duration of GET /v1/models, in ms. */
function list(port: number, agent: Agent): Promise<number> {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    get({ port, agent, path: '/v1/models', headers: { authorization: `Bearer ${KEY}` } }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`));
      response.resume().on('end', () => resolve(performance.now() - began));
    }).on('error', reject);
  });
}

/** Resolves to the time to the first token, in ms. */
function stream(port: number, agent: Agent): Promise<number> {
  const body = JSON.stringify({
    model: 'tycho-1.0',
    stream: true,
    max_tokens: STREAM_TOKENS,
    ignore_eos: true,
    messages: [{ role: 'user', content: 'Is this review positive or negative? "The soup was cold."' }],
  });
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    const began = performance.now();
    let first = NaN;
    httpRequest({ port, agent, method: 'POST', path: '/v1/chat/completions', headers }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`));
      response
        .on('data', () => {
          if (Number.isNaN(first)) first = performance.now() - began;
        })
        .on('end', () => resolve(first));
    })
      .on('error', reject)
      .end(body);
  });
}
