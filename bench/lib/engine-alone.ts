// A server that is its own only client. It runs STREAMS concurrent generations directly on the engine's channel, with
// the prompts that requests would have, but without HTTP, JSON or an API format. A server with the same settings and
// open streams decodes more slowly, and the difference is the cost of the streams. Run as a separate process:
//
//   node engine-alone.js MODEL STREAMS TOKENS QUESTION [flags of `monolith serve`]
//
// Once all generations are running, prints one line of JSON with its port, as the server does.

import { pathToFileURL } from 'node:url';

import { loadConfig } from '../../src/config/load.js';
import { ServedModels } from '../../src/generation/served-models.js';
import type { GenerationRequest } from '../../src/generation/types.js';
import { startServer } from '../../src/server/server.js';

async function generateAlone(args: string[]): Promise<void> {
  const [model = '', streams = '', tokens = '', question = '', ...flags] = args;
  const server = await startServer(loadConfig({ argv: flags }).config);
  await server.pool.settled();
  const limits = {
    queueWaitMs: 60_000,
    maxGenerationMs: 3_600_000,
    grammar: { whiteSpace: 'compact', callWhiteSpace: 'flexible' },
    images: { perImage: 16_384, perRequest: 131_072 },
  } as const;
  const provider = new ServedModels(server.pool, limits).find(model).ready();
  const request: GenerationRequest = {
    model,
    messages: [{ role: 'user', content: question }],
    continueFinal: false,
    sampling: {},
    n: 1,
    maxTokens: Number(tokens),
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
  const next = async (): Promise<void> => {
    const prepared = await provider.prepare(request, { organization: 1 });
    prepared.start((event) => {
      if (event.type === 'failed') throw new Error(event.message);
      if (event.type === 'finished') void next();
    });
  };
  for (let i = 0; i < Number(streams); i++) await next();
  process.stdout.write(`${JSON.stringify({ port: server.port })}\n`);
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  await generateAlone(process.argv.slice(2));
}
