// Measures what running several processes as one service costs and gains: the responses per second and their p99
// latency with one, two and three processes that share PostgreSQL and Redis, compared with one standalone process. Also
// measures how many responses per second PostgreSQL and LMDB can save durably. A fake upstream replaces the model, so
// only the HTTP side is measured. The fake upstream, the servers and the client run on the same machine.
//
//   npm run bench -- processes --json OUT
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { packageRoot } from '../src/engine/load-addon.js';
import { newItemId, newResponseId } from '../src/shared/ids.js';
import { openStore } from '../src/storage/lmdb/lmdb-store.js';
import { openResponseStore } from '../src/storage/lmdb/responses/open-response-store.js';
import { openPool } from '../src/storage/postgres/database.js';
import { migrate } from '../src/storage/postgres/migrations.js';
import { openPostgresResponses } from '../src/storage/postgres/responses/open-response-store.js';
import { ProcessLease } from '../src/storage/postgres/process-lease.js';
import type { ResponseRecord, ResponseStore } from '../src/storage/response-store.js';
import { startPostgres } from '../test/support/postgres.js';
import { startRedis } from '../test/support/redis.js';
import { commit, machine } from './lib/machine.js';
import { spreadOf, type Spread } from './lib/statistics.js';

const USAGE = `npm run bench -- processes [options]

  --seconds S    duration of each measurement (default 3), after one warm-up measurement
  --rounds N     measurements of each kind, alternating (default 3)
  --clients N    concurrent clients (default 32)
  --json OUT     write all results to OUT
`;

const KEY = 'bench-processes-0000';
const AT_ONCE = [1, 32] as const;

interface Server {
  port: number;
  child: ChildProcess;
}
interface Group {
  name: string;
  servers: Server[];
  perSecond: number[];
  p99: number[];
}

export async function processesBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    strict: true,
    options: { seconds: text, rounds: text, clients: text, json: text, help: { type: 'boolean' } },
  });
  if (values.help === true) return void process.stdout.write(USAGE);
  const [seconds, rounds, clients] = [
    ['seconds', 3],
    ['rounds', 3],
    ['clients', 32],
  ].map(([name, fallback]) => Number((values as Record<string, unknown>)[name as string] ?? fallback)) as [
    number,
    number,
    number,
  ];

  const load: number[][] = [loadavg()];
  const requests = await measureRequests(seconds, rounds, clients);
  load.push(loadavg());
  const saves = await measureSaves(seconds, rounds);
  load.push(loadavg());
  const figures = {
    bench: 'processes',
    at: new Date().toISOString(),
    machine: machine(),
    commit: commit(),
    load,
    seconds,
    clients,
    requests,
    saves,
  };
  process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(figures, null, 2)}\n`);
}

async function measureRequests(seconds: number, rounds: number, clients: number): Promise<object> {
  const [postgres, redis] = await Promise.all([startPostgres({ durable: true }), startRedis()]);
  const standIn = spawn(
    process.execPath,
    [join(packageRoot, 'build', 'bench', 'lib', 'stand-in-server.js'), '0', '0'],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const all: Server[] = [];
  try {
    const model = `http://127.0.0.1:${await firstLine(standIn)}/v1`;
    const alone = await startServer(model, []);
    all.push(alone);
    for (let at = 0; at < 3; at++)
      all.push(await startServer(model, ['--database', postgres.url, '--redis', redis.url]));
    const shared = all.slice(1);
    const groups: Group[] = [
      { name: 'one alone', servers: [alone] },
      ...[1, 2, 3].map((count) => ({ name: `${count} sharing`, servers: shared.slice(0, count) })),
    ].map((group) => ({ ...group, perSecond: [], p99: [] }));
    for (const group of groups) await drive(group.servers, 0.5, clients);
    for (let round = 0; round < rounds; round++) {
      for (const group of groups) {
        const { perSecond, p99 } = await drive(group.servers, seconds, clients);
        group.perSecond.push(perSecond);
        group.p99.push(p99);
      }
    }
    return Object.fromEntries(
      groups.map(({ name, perSecond, p99 }) => [name, { per_second: spreadOf(perSecond), p99_ms: spreadOf(p99) }]),
    );
  } finally {
    for (const child of [standIn, ...all.map((server) => server.child)]) child.kill('SIGKILL');
    await Promise.all([postgres.close(), redis.stop()]);
  }
}

async function startServer(model: string, more: string[]): Promise<Server> {
  const data = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
  const child = spawn(
    process.execPath,
    [
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
      `far=${model}`,
      '--limits-rpm',
      '100000000',
      '--limits-tpm',
      '1000000000',
      '--limits-concurrency',
      '100000',
      '--requests-days',
      '0',
      ...more,
    ],
    { env: { ...process.env, MONOLITH_API_KEY: KEY }, stdio: ['ignore', 'pipe', 'inherit'] },
  );
  child.once('exit', () => rmSync(data, { recursive: true, force: true }));
  return { port: (JSON.parse(await firstLine(child)) as { port: number }).port, child };
}

async function firstLine(child: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: child.stdout! })) return line;
  throw new Error('a server exited before it was ready');
}

/** Each client sends one request after another to its own process, over one connection. */
async function drive(
  servers: readonly Server[],
  seconds: number,
  clients: number,
): Promise<{ perSecond: number; p99: number }> {
  const agent = new Agent({ keepAlive: true, maxSockets: clients });
  const times: number[] = [];
  const until = performance.now() + seconds * 1_000;
  await Promise.all(
    Array.from({ length: clients }, async (_, at) => {
      const { port } = servers[at % servers.length] as Server;
      while (performance.now() < until) {
        const began = performance.now();
        await ask(port, agent);
        times.push(performance.now() - began);
      }
    }),
  );
  agent.destroy();
  times.sort((a, b) => a - b);
  return {
    perSecond: Math.round(times.length / seconds),
    p99: Math.round((times[Math.floor(times.length * 0.99)] ?? NaN) * 10) / 10,
  };
}

const BODY = JSON.stringify({
  model: 'far',
  max_tokens: 4,
  messages: [{ role: 'user', content: 'Tell me a long story about a lighthouse.' }],
});

function ask(port: number, agent: Agent): Promise<void> {
  return new Promise((resolve, reject) => {
    const asked = request(
      {
        port,
        host: '127.0.0.1',
        method: 'POST',
        path: '/v1/chat/completions',
        agent,
        headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', 'content-length': BODY.length },
      },
      (response) => {
        response
          .resume()
          .on('end', () =>
            response.statusCode === 200
              ? resolve()
              : reject(new Error(`a server responded with status ${response.statusCode ?? 0}`)),
          );
      },
    );
    asked.on('error', reject).end(BODY);
  });
}

/** Measures saving directly to the store, without HTTP requests. */
async function measureSaves(seconds: number, rounds: number): Promise<object> {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
  const postgres = await startPostgres({ durable: true });
  const store = await openStore(folder);
  const settings = { url: postgres.url, connections: 10, timeout_ms: 20_000 };
  await migrate(settings);
  const database = openPool(settings);
  const lease = await ProcessLease.open(database);
  const stores = {
    lmdb: openResponseStore(store, { retention_days: 30 }),
    postgres: openPostgresResponses(database, lease, { retention_days: 30 }),
  };
  try {
    const found: Record<string, number[]> = {};
    for (let round = -1; round < rounds; round++) {
      for (const [name, responses] of Object.entries(stores)) {
        for (const count of AT_ONCE) {
          const perSecond = await save(responses, round < 0 ? 0.5 : seconds, count);
          if (round >= 0) (found[`${name}, ${count} at once`] ??= []).push(perSecond);
        }
      }
    }
    return Object.fromEntries(Object.entries(found).map(([name, all]): [string, Spread] => [name, spreadOf(all)]));
  } finally {
    await Promise.all(Object.values(stores).map((one) => one.close()));
    await lease.close();
    await database.close();
    await store.close();
    await postgres.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function save(responses: ResponseStore, seconds: number, atOnce: number): Promise<number> {
  const until = performance.now() + seconds * 1_000;
  let saved = 0;
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (; performance.now() < until; saved++) await responses.save(recordOf());
    }),
  );
  return Math.round(saved / seconds);
}

function recordOf(): ResponseRecord {
  const id = newResponseId();
  const said = (role: string, words: number): { id: string; item: Record<string, unknown> } => {
    const item = newItemId('msg');
    return {
      id: item,
      item: {
        id: item,
        type: 'message',
        status: 'completed',
        role,
        content: [{ type: 'text', text: 'word '.repeat(words) }],
      },
    };
  };
  const [input, output] = [[said('user', 60)], [said('assistant', 120)]];
  const createdAt = Math.floor(Date.now() / 1000);
  return {
    id,
    organizationId: 'org_a',
    model: 'far',
    createdAt,
    status: 'completed',
    background: false,
    previousId: null,
    resource: { id, object: 'response', status: 'completed', output: output.map(({ item }) => item) },
    input,
    output,
  };
}
