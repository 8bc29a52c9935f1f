// Compares this server with and without the disk tier and, if there is one, llama-server: the same conversations over
// HTTP, the same model file, the same number of positions in the KV cache, the same number of threads.
import { availableParallelism } from 'node:os';

import { print, shown } from './prefix-print.js';
import type { TraceShape } from './prefix-trace.js';
import { runServerTrace, type ServerTrace, type ServerTraceFigures } from './server-trace.js';
import { spreadOf } from './statistics.js';
import { LlamaServer, type LlamaMode } from './trace-server-llama.js';
import { OwnServer } from './trace-server-own.js';
import type { TraceServer } from './trace-server.js';

export interface ServerComparison {
  /** llama-server; null: only this server is measured. */
  readonly program: string | null;
  readonly model: string;
  readonly dir: string;
  readonly kvTokens: number;
  readonly kvBytes: number;
  readonly maxContext: number;
  readonly shape: TraceShape;
  readonly repeats: number;
}

interface Configuration {
  readonly name: string;
  create(): TraceServer;
}

/** llama-server has one slot for the conversations, two more as by default, and one for each other stream. */
const CONVERSATION_SLOTS = 3;

/** Runs all configurations in turn, `repeats` times, in alternating order. Returns the figures by configuration. */
export async function compareServers(options: ServerComparison): Promise<Record<string, readonly ServerTrace[]>> {
  const { shape, repeats } = options;
  const configurations = configurationsOf(options);
  const results = new Map<string, ServerTrace[]>(configurations.map(({ name }) => [name, []]));
  for (let repeat = 0; repeat < repeats; repeat++) {
    for (const { name, create } of repeat % 2 === 0 ? configurations : configurations.toReversed()) {
      const trace = await runServerTrace(create(), shape, repeat + 1);
      results.get(name)!.push(trace);
      process.stderr.write(
        `${repeat + 1}/${repeats} ${name}: first token p50 ${trace.later.firstTokenMs.p50.toFixed(0)} ms in later turns, ${trace.restarted.firstTokenMs.p50.toFixed(0)} ms after a restart\n`,
      );
    }
  }
  for (const [name, traces] of results) report(name, traces);
  return Object.fromEntries(results);
}

function configurationsOf({
  program,
  model,
  dir,
  kvTokens,
  kvBytes,
  maxContext,
  shape,
}: ServerComparison): Configuration[] {
  const threads = availableParallelism();
  const own = (hasTier: boolean): Configuration => ({
    name: `this server, ${hasTier ? 'pages on disk' : 'no disk tier'}`,
    create: () => new OwnServer({ model, dir, threads, kvBytes, maxContext, hasTier }),
  });
  const slots = CONVERSATION_SLOTS + shape.streams;
  const modes: [LlamaMode, string][] = [
    ['slots', 'slots only'],
    ['memory', 'prompt cache in memory'],
    ['files', 'slot files'],
  ];
  const peers = modes.flatMap(([mode, name]): Configuration[] =>
    program === null
      ? []
      : [
          {
            name: `llama-server, ${name}`,
            create: () => new LlamaServer({ program, model, dir, threads, kvTokens, slots, mode }),
          },
        ],
  );
  return [own(false), own(true), ...peers];
}

function report(name: string, traces: readonly ServerTrace[]): void {
  for (const [part, title] of [
    ['first', 'first turn'],
    ['later', 'later turns'],
    ['restarted', 'one turn after a restart'],
  ] as const) {
    const row = (label: string, of: (figures: ServerTraceFigures) => number): [string, string] => [
      label,
      shown(spreadOf(traces.map((trace) => of(trace[part])))),
    ];
    print(`${name}: ${title}; medians of runs`, [
      row('time to first token p50, ms', ({ firstTokenMs }) => firstTokenMs.p50),
      row('time to first token p99, ms', ({ firstTokenMs }) => firstTokenMs.p99),
      row('computed prompt tokens', ({ computedTokens }) => computedTokens),
      row('prompt tokens', ({ promptTokens }) => promptTokens),
      row('MB written', ({ writtenBytes }) => writtenBytes / 1e6),
      row('MB read', ({ readBytes }) => readBytes / 1e6),
      row('inter-token latency of other streams p50, ms', ({ gapMs }) => gapMs.p50),
      row('inter-token latency of other streams p99, ms', ({ gapMs }) => gapMs.p99),
      row('seconds', ({ seconds }) => seconds),
    ]);
  }
}
