// Runs a benchmark by name: npm run bench -- <name> [options].
import { admissionBenchCommand } from './admission.js';
import { answersBenchCommand } from './answers.js';
import { embeddingsBenchCommand } from './embeddings.js';
import { engineBenchCommand } from './engine.js';
import { expiryBenchCommand } from './expiry.js';
import { fairnessBenchCommand } from './fairness.js';
import { gpuBenchCommand } from './gpu.js';
import { grammarBenchCommand } from './grammar.js';
import { httpBenchCommand } from './http.js';
import { liveBenchCommand } from './live.js';
import { makeModelCommand } from './make-model.js';
import { observingBenchCommand } from './observing.js';
import { prefixBenchCommand } from './prefix.js';
import { processesBenchCommand } from './processes.js';
import { refusedBenchCommand } from './refused.js';
import { sightBenchCommand } from './sight.js';
import { speculationBenchCommand } from './speculation.js';
import { streamsBenchCommand } from './streams.js';
import { submitBenchCommand } from './submit.js';
import { tuneGridBenchCommand } from './tune-grid.js';
import { upstreamBenchCommand } from './upstream.js';
import { variantsBenchCommand } from './variants.js';
import { victimBenchCommand } from './victim.js';

const BENCHES: Record<string, { about: string; run: (args: string[]) => void | Promise<void> }> = {
  admission: {
    about: 'cost of authentication, limits and usage records per request',
    run: admissionBenchCommand,
  },
  answers: { about: 'loops and stray markers in the responses of the embedded models', run: answersBenchCommand },
  embeddings: {
    about: 'throughput of embeddings, compared with a peer',
    run: embeddingsBenchCommand,
  },
  engine: {
    about: 'prefill and decode speed of a model file, by batch size and context depth, without a server',
    run: engineBenchCommand,
  },
  expiry: {
    about: 'disk writes of expiring stored responses, and latency of other requests meanwhile',
    run: expiryBenchCommand,
  },
  fairness: {
    about: "effect of one organization's attack on another's time to first token and inter-token latency",
    run: fairnessBenchCommand,
  },
  gpu: { about: 'CUDA backend: tests on a GPU, kernels and whole steps of a model', run: gpuBenchCommand },
  grammar: {
    about: 'structured output: JSON Schema coverage, cost of a mask, constrained decoding speed',
    run: grammarBenchCommand,
  },
  http: { about: 'time to first token added by HTTP; HTTP servers compared', run: httpBenchCommand },
  live: { about: 'engine cost of operators watching the live view', run: liveBenchCommand },
  'make-model': { about: 'write a model file with random weights to measure with', run: makeModelCommand },
  observing: { about: 'cost of the request log, traces and metrics scrapes', run: observingBenchCommand },
  prefix: {
    about: 'KV pages on disk: time to use a stored prefix, conversations larger than memory, cost to other streams',
    run: prefixBenchCommand,
  },
  processes: {
    about: 'cost and gain of several processes as one service, and of PostgreSQL compared with LMDB',
    run: processesBenchCommand,
  },
  refused: {
    about: "effect of one organization's refused large requests on another's time to first byte",
    run: refusedBenchCommand,
  },
  sight: {
    about: 'time from an image in the request to the first token, compared with a peer',
    run: sightBenchCommand,
  },
  speculation: {
    about: 'decode speed with and without speculative decoding, on repetitive and other text',
    run: speculationBenchCommand,
  },
  streams: {
    about: 'stream events per second that the JavaScript side can carry with many open streams',
    run: streamsBenchCommand,
  },
  submit: { about: 'cost of a request before it reaches the engine', run: submitBenchCommand },
  'tune-grid': {
    about: 'result of the tuner compared with an exhaustive grid, on a real server',
    run: tuneGridBenchCommand,
  },
  upstream: {
    about: 'cost of an upstream model: added latency, CPU time, memory of many streams',
    run: upstreamBenchCommand,
  },
  variants: {
    about: 'settings of this engine compared with each other and with other engines, in alternating rounds',
    run: variantsBenchCommand,
  },
  victim: { about: "effect of a long prompt on another response's inter-token latency", run: victimBenchCommand },
};

const [name, ...args] = process.argv.slice(2);
const bench = name === undefined ? undefined : BENCHES[name];
if (bench === undefined) {
  const lines = Object.entries(BENCHES).map(([key, { about }]) => `  ${key.padEnd(12)} ${about}`);
  process.stderr.write(
    `usage: npm run bench -- <bench> [options]\n\n${lines.join('\n')}\n\nEvery benchmark has --help.\n`,
  );
  process.exitCode = name === undefined ? 0 : 2;
} else {
  try {
    await bench.run(args);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}
