// Measures the cost of observability: the CPU time per request with and without the request log and tracing, and per
// metrics scrape with one or both sets of metric names. It covers all threads except the engine's. The servers are
// measured in turn, so that other load on the machine affects all of them. Linux only.
//
//   npm run bench -- observing --json OUT
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { packageRoot } from '../src/engine/load-addon.js';
import { commit, machine } from './lib/machine.js';
import { spreadOf, type Spread } from './lib/statistics.js';
import { AUTHORIZATION, MeasuredServer } from './lib/stream-server.js';

const USAGE = `npm run bench -- observing [options]

  --model FILE     GGUF file (default: the smallest embedded model)
  --rounds N       measured rounds, in each of which every server gets requests once (default 12), after one warm-up round
  --requests N     requests per round and server (default 300), 8 concurrent, 8 tokens each
  --json OUT       write all results to OUT
`;

const AT_ONCE = 8;
const SCRAPES = 40;
const NAME = 'bench';

export async function observingBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    strict: true,
    options: { model: text, rounds: text, requests: text, json: text, help: { type: 'boolean' } },
  });
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  const rounds = Number(values.rounds ?? 12);
  const requests = Number(values.requests ?? 300);
  const model = values.model ?? join(packageRoot, 'models', 'starter-q8_0.gguf');
  const collector = await startCollector();
  const traced = ['--telemetry-traces-endpoint', `http://127.0.0.1:${collector.port}/v1/traces`];
  const ways: Record<string, string[]> = {
    'neither log nor trace': ['--requests-days', '0'],
    'request log': [],
    'request log, 1 % traced': [...traced, '--telemetry-traces-sample-ratio', '0.01'],
    'request log, all traced': traced,
  };
  const servers = new Map<string, MeasuredServer>();
  try {
    for (const [way, flags] of Object.entries(ways)) {
      servers.set(
        way,
        await MeasuredServer.start(
          [join(packageRoot, 'dist', 'main.js'), 'serve'],
          ['--model', `${NAME}=${model}`, '--kv-bytes', '64MiB', '--max-context', '1024', '--threads', '1', ...flags],
        ),
      );
    }
    const figures = new Map(Object.keys(ways).map((way) => [way, [] as number[]]));
    for (let round = -1; round < rounds; round++) {
      // The order rotates, because the first server in each round is measured after a pause.
      const order = [...servers].map(
        (_, at, all) => all[(at + Math.max(0, round)) % all.length] as (typeof all)[number],
      );
      for (const [way, server] of order) {
        const before = server.times().front;
        await drive(server, requests);
        await settled();
        const microseconds = ((server.times().front - before) * 1e6) / requests;
        if (round >= 0) figures.get(way)?.push(microseconds);
      }
    }
    const base = figures.get('neither log nor trace') ?? [];
    const rows = [...figures].map(([way, runs]) => ({
      way,
      microseconds: spreadOf(runs),
      more: spreadOf(runs.map((one, at) => one - (base[at] as number))),
    }));
    const scrapes = await scrapeCosts(model);
    process.stdout.write(
      `CPU time per request outside the engine, µs            median    min    max    more than the first\n${rows.map(({ way, microseconds, more }) => `${way.padEnd(52)}${cell(microseconds.median)}${cell(microseconds.min)}${cell(microseconds.max)}${cell(more.median)}`).join('\n')}\n`,
    );
    process.stdout.write(`messages received by the trace collector: ${collector.messages()} messages\n`);
    process.stdout.write(
      `a scrape, µs: ${scrapes.map(({ names, microseconds }) => `${names} ${microseconds.median.toFixed(0)} (${microseconds.min.toFixed(0)} to ${microseconds.max.toFixed(0)})`).join(', ')}\n`,
    );
    if (values.json !== undefined) {
      writeFileSync(
        values.json,
        `${JSON.stringify({ bench: 'observing', machine: machine(), commit: commit(), rounds, requests, at_once: AT_ONCE, rows, scrapes }, null, 2)}\n`,
      );
    }
  } finally {
    for (const server of servers.values()) server.stop();
    collector.close();
  }
}

const cell = (value: number): string => value.toFixed(0).padStart(7);

/** Waits until deferred work is done: within a second, log batches are written and spans are sent. */
const settled = (): Promise<void> => new Promise((done) => setTimeout(done, 1_300));

async function ask(server: MeasuredServer, number: number): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${server.port}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: AUTHORIZATION },
    body: JSON.stringify({
      model: NAME,
      max_tokens: 8,
      ignore_eos: true,
      messages: [{ role: 'user', content: `What is the number behind ${number}?` }],
    }),
  });
  if (response.status !== 200) throw new Error(await response.text());
  await response.arrayBuffer();
}

async function drive(server: MeasuredServer, requests: number): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (next < requests) await ask(server, next++);
    }),
  );
}

/**
 * Starts one server for each choice of metric names. After each server has served the same number of requests, the
 * servers are scraped in turn.
 */
async function scrapeCosts(model: string): Promise<{ names: string; microseconds: Spread }[]> {
  const all: { names: string; server: MeasuredServer; runs: number[] }[] = [];
  try {
    for (const names of ['monolith', 'both']) {
      const server = await MeasuredServer.start(
        [join(packageRoot, 'dist', 'main.js'), 'serve'],
        [
          '--model',
          `${NAME}=${model}`,
          '--kv-bytes',
          '64MiB',
          '--max-context',
          '1024',
          '--threads',
          '1',
          '--metrics-names',
          names,
        ],
      );
      all.push({ names, server, runs: [] });
      await drive(server, 100);
    }
    for (let round = -1; round < 8; round++) {
      for (const { server, runs } of all) {
        await settled();
        const before = server.times().front;
        for (let i = 0; i < SCRAPES; i++) await server.metrics();
        if (round >= 0) runs.push(((server.times().front - before) * 1e6) / SCRAPES);
      }
    }
    return all.map(({ names, runs }) => ({ names, microseconds: spreadOf(runs) }));
  } finally {
    for (const { server } of all) server.stop();
  }
}

/** Starts a trace collector that accepts any message. */
async function startCollector(): Promise<{ port: number; messages(): number; close(): void }> {
  let messages = 0;
  const server = createServer((request, response) => {
    messages++;
    request.resume().on('end', () => response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    messages: () => messages,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
