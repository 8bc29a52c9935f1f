// The benches by name: npm run bench -- <name> [options].
import { admissionBenchCommand } from './admission.js';
import { answersBenchCommand } from './answers.js';
import { engineBenchCommand } from './engine.js';
import { expiryBenchCommand } from './expiry.js';
import { fairnessBenchCommand } from './fairness.js';
import { gpuBenchCommand } from './gpu.js';
import { grammarBenchCommand } from './grammar.js';
import { httpBenchCommand } from './http.js';
import { liveBenchCommand } from './live.js';
import { makeModelCommand } from './make-model.js';
import { observingBenchCommand } from './observing.js';
import { processesBenchCommand } from './processes.js';
import { refusedBenchCommand } from './refused.js';
import { sightBenchCommand } from './sight.js';
import { speculationBenchCommand } from './speculation.js';
import { streamsBenchCommand } from './streams.js';
import { submitBenchCommand } from './submit.js';
import { tuneGridBenchCommand } from './tune-grid.js';
import { upstreamBenchCommand } from './upstream.js';
import { victimBenchCommand } from './victim.js';

const BENCHES: Record<string, { about: string; run: (args: string[]) => void | Promise<void> }> = {
  admission: {
    about: 'what authentication, limits and the record of usage cost a request',
    run: admissionBenchCommand,
  },
  answers: { about: 'whether answers have loops in them, or markers that belong to none', run: answersBenchCommand },
  engine: {
    about: 'prefill and decode of a model file, in process: speed by batch and by depth',
    run: engineBenchCommand,
  },
  expiry: {
    about: 'what the expiry of stored responses writes, and how long other requests wait meanwhile',
    run: expiryBenchCommand,
  },
  fairness: {
    about: 'what an attack by one organization does to the first token and the tokens of another',
    run: fairnessBenchCommand,
  },
  gpu: { about: 'the CUDA backend: its tests on a GPU, its kernels and whole steps of a model', run: gpuBenchCommand },
  grammar: {
    about: 'structured output: schemas covered, what a mask costs, decoding under one',
    run: grammarBenchCommand,
  },
  http: { about: 'what HTTP adds to the time to first token', run: httpBenchCommand },
  live: { about: 'what operators watching the live view cost the engine', run: liveBenchCommand },
  'make-model': { about: 'write a model with random weights to measure with', run: makeModelCommand },
  observing: { about: 'what the request log, traces and scrapes of the metrics cost', run: observingBenchCommand },
  processes: {
    about: 'what several processes as one service cost and gain, and saves on PostgreSQL beside LMDB',
    run: processesBenchCommand,
  },
  refused: {
    about: "what one organization's refused large requests do to the first byte of another",
    run: refusedBenchCommand,
  },
  sight: { about: 'from a picture in the request to the first token, beside another server', run: sightBenchCommand },
  speculation: {
    about: 'decoding with guesses and without: texts that repeat themselves, and texts that do not',
    run: speculationBenchCommand,
  },
  streams: { about: 'stream events a second the JavaScript carries, with many streams open', run: streamsBenchCommand },
  submit: { about: 'what a request costs before the engine has it', run: submitBenchCommand },
  'tune-grid': { about: 'what the tuner finds beside an exhaustive grid, on a real server', run: tuneGridBenchCommand },
  upstream: {
    about: 'what a model that runs elsewhere costs here: time, processor, memory of many streams',
    run: upstreamBenchCommand,
  },
  victim: { about: 'what a long prompt does to the tokens of another answer', run: victimBenchCommand },
};

const [name, ...args] = process.argv.slice(2);
const bench = name === undefined ? undefined : BENCHES[name];
if (bench === undefined) {
  const lines = Object.entries(BENCHES).map(([key, { about }]) => `  ${key.padEnd(12)} ${about}`);
  process.stderr.write(`usage: npm run bench -- <bench> [options]\n\n${lines.join('\n')}\n\nEach takes --help.\n`);
  process.exitCode = name === undefined ? 0 : 2;
} else {
  try {
    await bench.run(args);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}
