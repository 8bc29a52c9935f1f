// Measures the cost of a request before it reaches the engine: parsing the JSON, validating it, rendering the chat
// template, tokenizing and submitting. Uses a conversation of many messages, in one process and without sockets.
//
//   npm run bench -- submit --json OUT
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { loadConfig } from '../src/config/load.js';
import { ServedModels } from '../src/generation/served-models.js';
import { parseJsonBody } from '../src/http/json.js';
import { parseChat } from '../src/protocol/chat-completions/parse.js';
import { startServer } from '../src/server/server.js';
import { spreadOf, type Spread } from './lib/statistics.js';

const USAGE = `npm run bench -- submit [options]

  --model FILE     GGUF file (default: the embedded model)
  --messages N     messages of the conversation (default 20)
  --requests N     measured requests (default 2000), after 500 warm-up requests
  --json OUT       write all results to OUT
`;

const STEPS = ['read JSON', 'check', 'render, tokenize', 'submit'] as const;

export async function submitBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    strict: true,
    options: { model: text, messages: text, requests: text, json: text, help: { type: 'boolean' } },
  });
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  const messages = Number(values.messages ?? 20);
  const requests = Number(values.requests ?? 2_000);
  const data = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
  const name = 'tycho-1.0';
  const flags = ['--port', '0', '--data-dir', data, '--log-level', 'silent'];
  const server = await startServer(
    loadConfig({ argv: values.model === undefined ? flags : [...flags, '--model', `${name}=${values.model}`], env: {} })
      .config,
  );
  try {
    const provider = new ServedModels(server.pool, {
      queueWaitMs: 60_000,
      maxGenerationMs: 60_000,
      grammar: { whiteSpace: 'compact', callWhiteSpace: 'flexible' },
      images: { perImage: 16_384, perRequest: 131_072 },
    })
      .find(name)
      .ready();
    const times: number[][] = [[], [], [], [], []];
    for (let i = -500; i < requests; i++) {
      const bytes = Buffer.from(conversation(name, messages, i));
      const marks = [performance.now()];
      const body = parseJsonBody(bytes);
      marks.push(performance.now());
      const chat = parseChat(body).content({ maxN: 8 });
      marks.push(performance.now());
      const prepared = await provider.prepare(chat.request, { organization: 1 });
      marks.push(performance.now());
      const running = prepared.start(() => undefined);
      marks.push(performance.now());
      running.cancel();
      if (i >= 0)
        for (const [at, list] of times.entries())
          list.push(
            at < STEPS.length ? (marks[at + 1] ?? NaN) - (marks[at] ?? NaN) : (marks.at(-1) ?? NaN) - (marks[0] ?? NaN),
          );
      // give the engine time to process the cancelled requests
      if (i % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const rows = [...STEPS, 'together'].map((label, at) => ({ label, ms: summary(times[at] ?? []) }));
    process.stdout.write(
      `${messages} messages, ms          p50      p99\n${rows.map(({ label, ms }) => `${label.padEnd(22)}${ms.median.toFixed(3).padStart(9)}${ms.p99.toFixed(3).padStart(9)}\n`).join('')}`,
    );
    if (values.json !== undefined) {
      const figures = rows.map(({ label, ms: { median, p99, min, max } }) => ({ label, median, p99, min, max }));
      writeFileSync(
        values.json,
        `${JSON.stringify({ bench: 'submit', at: new Date().toISOString(), messages, requests, unit: 'ms', figures }, null, 2)}\n`,
      );
    }
  } finally {
    await server.close();
    rmSync(data, { recursive: true, force: true });
  }
}

function summary(runs: number[]): Spread & { p99: number } {
  return { ...spreadOf(runs), p99: [...runs].sort((a, b) => a - b)[Math.floor(runs.length * 0.99)] ?? NaN };
}

/** Returns a different text for each seed, so that no result comes from a cache keyed by the text. */
function conversation(model: string, messages: number, seed: number): string {
  const turns = Array.from({ length: messages }, (_, index) => ({
    role: index === 0 ? 'system' : index % 2 === 1 ? 'user' : 'assistant',
    content: `Message ${index} of conversation ${seed}: the ferry leaves at ${7 + index} and returns before dark, weather permitting.`,
  }));
  return JSON.stringify({ model, temperature: 0.7, max_tokens: 100, stream: true, messages: turns });
}
