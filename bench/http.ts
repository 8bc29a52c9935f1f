// Measures HTTP overhead: the time to first token for the same prompt, sent alternately through the whole server and
// directly to the engine, in one process. The client shares the server's event loop, so the difference includes the
// client's own cost and is an upper bound.
//
//   npm run bench -- http --json OUT
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { loadConfig } from '../src/config/load.js';
import type { Provider } from '../src/generation/provider.js';
import { ServedModels } from '../src/generation/served-models.js';
import type { GenerationRequest } from '../src/generation/types.js';
import { startServer } from '../src/server/server.js';
import { compareHttpServers } from './http-servers.js';
import { spreadOf } from './lib/statistics.js';

const USAGE = `npm run bench -- http [options]

  --model FILE     GGUF file (default: the embedded model)
  --requests N     measured requests of each kind (default 500), after 50 warm-up requests
  --server NAME    HTTP server of the measured server: auto, uws or node (default auto)
  --servers        compare the HTTP servers instead: latency, CPU time, memory per idle connection
  --turns N        with --servers: turns of each server (default 10)
  --json OUT       write all results to OUT
`;

const KEY = 'bench-http-0000000000';
const QUESTION = 'Is this review positive or negative? "The soup was cold and the waiter rude."';

export async function httpBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    strict: true,
    options: {
      model: text,
      requests: text,
      json: text,
      server: text,
      servers: { type: 'boolean' },
      turns: text,
      help: { type: 'boolean' },
    },
  });
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  if (values.servers === true) {
    await compareHttpServers(Number(values.turns ?? 10), values.json);
    return;
  }
  const requests = Number(values.requests ?? 500);
  if (!Number.isSafeInteger(requests) || requests < 1) throw new Error('--requests must be an integer of at least 1');

  const data = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
  const name = 'tycho-1.0';
  const flags = [
    '--port',
    '0',
    '--data-dir',
    data,
    '--api-key',
    KEY,
    '--log-level',
    'silent',
    '--http-server',
    values.server ?? 'auto',
    '--limits-rpm',
    'off',
    '--limits-tpm',
    'off',
  ];
  const server = await startServer(
    loadConfig({ argv: values.model === undefined ? flags : [...flags, '--model', `${name}=${values.model}`], env: {} })
      .config,
  );
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  try {
    const provider = new ServedModels(server.pool, {
      queueWaitMs: 60_000,
      maxGenerationMs: 60_000,
      grammar: { whiteSpace: 'compact', callWhiteSpace: 'flexible' },
      images: { perImage: 16_384, perRequest: 131_072 },
    })
      .find(name)
      .ready();
    const ways = {
      http: () => overHttp(server.port, agent, name),
      engine: await straight(provider, name),
    };
    const figures: Record<keyof typeof ways, number[]> = { http: [], engine: [] };
    for (let i = -50; i < requests; i++) {
      for (const way of ['http', 'engine'] as const) {
        const ms = await ways[way]();
        if (i >= 0) figures[way].push(ms);
      }
    }
    const http = spreadOf(figures.http);
    const engine = spreadOf(figures.engine);
    const p99 = (runs: number[]): number => [...runs].sort((a, b) => a - b)[Math.floor(runs.length * 0.99)] ?? NaN;
    const added = http.median - engine.median;
    const row = (label: string, median: number, tail: number): string =>
      `${label.padEnd(22)}${median.toFixed(3).padStart(9)}${tail.toFixed(3).padStart(9)}\n`;
    process.stdout.write(
      `time to first token, ms    p50      p99\n${row('over HTTP', http.median, p99(http.runs))}${row('straight', engine.median, p99(engine.runs))}added by HTTP, JSON, template, tokenizer and this client: ${added.toFixed(3)} ms at the median\n`,
    );
    if (values.json !== undefined)
      writeFileSync(
        values.json,
        `${JSON.stringify({ bench: 'http', at: new Date().toISOString(), requests, unit: 'ms', http, engine, added }, null, 2)}\n`,
      );
  } finally {
    agent.destroy();
    await server.close();
    rmSync(data, { recursive: true, force: true });
  }
}

/** Returns the milliseconds from sending a streaming request to the first byte of text. */
function overHttp(port: number, agent: Agent, model: string): Promise<number> {
  const body = JSON.stringify({
    model,
    stream: true,
    max_tokens: 1,
    temperature: 0,
    ignore_eos: true,
    messages: [{ role: 'user', content: QUESTION }],
  });
  return new Promise((resolve, reject) => {
    const began = performance.now();
    let first = NaN;
    const request = httpRequest(
      {
        host: '127.0.0.1',
        port,
        agent,
        method: 'POST',
        path: '/v1/chat/completions',
        headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      },
      (response) => {
        if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`));
        response.on('data', () => {
          if (Number.isNaN(first)) first = performance.now() - began;
        });
        response.on('end', () => resolve(first));
      },
    );
    request.on('error', reject);
    request.end(body);
  });
}

/** Submits the same prompt, rendered and tokenized in advance, directly to the engine. */
async function straight(provider: Provider, model: string): Promise<() => Promise<number>> {
  const request: GenerationRequest = {
    model,
    messages: [{ role: 'user', content: QUESTION }],
    continueFinal: false,
    sampling: { temperature: 0 },
    n: 1,
    maxTokens: 1,
    stop: [],
    topLogprobs: null,
    effort: null,
    reasoningBudget: null,
    tools: [],
    toolChoice: { mode: 'none', allowed: null },
    parallelToolCalls: true,
    format: { type: 'text' },
    truncation: 'disabled',
    promptParam: 'messages',
    ignoreEos: true,
  };
  const prepared = await provider.prepare(request, { organization: 1 });
  return () =>
    new Promise((resolve, reject) => {
      const began = performance.now();
      let first = NaN;
      prepared.start((event) => {
        if (event.type === 'text' && Number.isNaN(first)) first = performance.now() - began;
        if (event.type === 'failed') reject(new Error(event.message));
        if (event.type === 'finished') resolve(Number.isNaN(first) ? performance.now() - began : first);
      });
    });
}
