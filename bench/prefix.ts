// Measures the storage tier of the prefix cache: the time until a stored prefix can be used, conversations that do not
// fit into memory together, and the effect of exports and imports on the inter-token latency of other streams. The part
// `servers` sends the same conversations over HTTP to this server and, with --peer, to llama-server.
//
//   npm run bench -- prefix --model FILE
//   npm run bench -- prefix --model FILE --parts trace --pairs 5 --conversations 20
//   npm run bench -- prefix --model FILE --parts servers --pairs 3 --peer llama-server
import { mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { parseArgs } from 'node:util';

import type { LoadOptions } from '../src/engine/addon-types.js';
import { loadAddon } from '../src/engine/load-addon.js';
import { benchLoadOptions } from './lib/engine-requests.js';
import { commit, machine } from './lib/machine.js';
import { print, round, share, shown, signed } from './lib/prefix-print.js';
import { compareServers } from './lib/prefix-servers.js';
import { measureExports, measureReads, type CostOptions, type Gaps } from './lib/prefix-cost.js';
import { measureImports } from './lib/prefix-import.js';
import { percentilesOf, runTrace, type TraceFigures } from './lib/prefix-trace.js';
import { spreadOf } from './lib/statistics.js';

const USAGE = `npm run bench -- prefix --model FILE [options]

  --model FILE        GGUF file to measure
  --parts LIST        parts to run (default import,trace,exports,imports, and servers with --peer)
  --pairs N           runs with and without the tier, or with each server, in turn (default 5)
  --peer PROGRAM      servers: llama-server, measured next to this server
  --prefix N          import: tokens of the stored prefix (default 4000)
  --conversations N   trace, servers: number of conversations (default 5)
  --turns N           trace, servers: turns per conversation (default 3)
  --system N          trace, servers: tokens that half of the conversations share (default 256)
  --user N            trace, servers: tokens of a user message (default 128)
  --answer N          trace, servers: tokens of an answer (default 16)
  --kv-tokens N       trace, servers, imports: positions that fit into memory (default 2000)
  --streams N         other streams (default 2)
  --tokens N          exports, imports: tokens per prompt (default 512)
  --every MS          exports, imports: time from one prompt to the next (default 3000)
  --seconds N         exports, imports: duration of a run (default 15)
  --dir PATH          folder for pages, on the disk to measure (default: the temporary folder)
  --json OUT          write all results to OUT
`;

const NUMBERS = {
  pairs: 5,
  prefix: 4_000,
  conversations: 5,
  turns: 3,
  system: 256,
  user: 128,
  answer: 16,
  'kv-tokens': 2_000,
  streams: 2,
  tokens: 512,
  every: 3_000,
  seconds: 15,
} as const;
type NumberName = keyof typeof NUMBERS;
const PARTS = ['import', 'trace', 'exports', 'imports', 'servers'] as const;
type Part = (typeof PARTS)[number];

const MAX_CONTEXT = 8_192;
const POOL_BYTES = 2 ** 30;

export async function prefixBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const numbers = Object.fromEntries(Object.keys(NUMBERS).map((name) => [name, text])) as Record<
    NumberName,
    typeof text
  >;
  const { values } = parseArgs({
    args,
    strict: true,
    options: { model: text, parts: text, peer: text, dir: text, json: text, help: { type: 'boolean' }, ...numbers },
  });
  const { model, dir = tmpdir() } = values;
  if (values.help === true || model === undefined) {
    process.stdout.write(USAGE);
    return;
  }
  const number = (name: NumberName): number => {
    const value = Number(values[name] ?? NUMBERS[name]);
    if (!Number.isInteger(value) || value < 1)
      throw new Error(`--${name} must be a positive whole number (got ${values[name]}).`);
    return value;
  };
  const { peer } = values;
  const parts = values.parts?.split(',') ?? PARTS.filter((part) => part !== 'servers' || peer !== undefined);
  for (const part of parts)
    if (!PARTS.includes(part as Part)) throw new Error(`--parts must be of ${PARTS.join(', ')} (got ${part}).`);
  const has = (part: Part): boolean => parts.includes(part);
  mkdirSync(dir, { recursive: true });
  const load = { ...benchLoadOptions, prefixCache: true, maxContext: MAX_CONTEXT, kvBytes: POOL_BYTES };
  const common = { model, load, dir };
  const pairs = number('pairs');
  const results: Record<string, unknown> = {};

  if (has('import')) {
    const figures = await measureImports({ ...common, tokens: number('prefix'), repeats: pairs });
    const { prefillMs, storeMs, warmMs, coldMs, diskMs } = figures;
    results['import'] = figures;
    print(`import of ${figures.tokens} tokens, ${(figures.bytes / 1e6).toFixed(0)} MB; medians in ms (min to max)`, [
      ['prefill', shown(prefillMs)],
      ['all pages durable after the request', round(storeMs)],
      ['import, in the page cache', `${shown(warmMs)}, ${share(warmMs.median, prefillMs.median)} of prefill`],
      ['import, not in the page cache', shown(coldMs)],
      ['reading the files from disk', shown(diskMs)],
    ]);
  }
  const small = { ...common, load: withPool(load, number('kv-tokens'), await bytesPerToken(common)) };
  const shape = {
    conversations: number('conversations'),
    turns: number('turns'),
    system: number('system'),
    user: number('user'),
    answer: number('answer'),
    streams: number('streams'),
  };
  if (has('trace')) {
    const runs: { without: TraceFigures; with: TraceFigures }[] = [];
    for (let pair = 0; pair < pairs; pair++) {
      const first = await runTrace(small, shape, pair % 2 === 1);
      const second = await runTrace(small, shape, pair % 2 === 0);
      runs.push(pair % 2 === 0 ? { without: first, with: second } : { without: second, with: first });
    }
    results['trace'] = { shape, runs };
    const row = (name: string, of: (figures: TraceFigures) => number): [string, string] => {
      const before = spreadOf(runs.map((run) => of(run.without)));
      const after = spreadOf(runs.map((run) => of(run.with)));
      return [name, `${shown(before)} → ${shown(after)}`];
    };
    print(`${shape.conversations} conversations of ${shape.turns} turns, without and with the tier; medians of runs`, [
      row('time to first token p50, ms', ({ firstTokenMs }) => firstTokenMs.p50),
      row('time to first token p99, ms', ({ firstTokenMs }) => firstTokenMs.p99),
      row('the same after the first turn p50, ms', ({ laterFirstTokenMs }) => laterFirstTokenMs.p50),
      row('computed prompt tokens', ({ computedTokens }) => computedTokens),
      row('prompt tokens', ({ promptTokens }) => promptTokens),
      row('MB written', ({ writtenBytes }) => writtenBytes / 1e6),
      row('MB read', ({ readBytes }) => readBytes / 1e6),
      row('inter-token latency of other streams p50, ms', ({ gapMs }) => gapMs.p50),
      row('inter-token latency of other streams p99, ms', ({ gapMs }) => gapMs.p99),
      row('seconds', ({ seconds }) => seconds),
    ]);
  }
  const cost: CostOptions = {
    ...small,
    streams: number('streams'),
    tokens: number('tokens'),
    seconds: number('seconds'),
    everyMs: number('every'),
    pairs,
  };
  if (has('exports')) results['exports'] = reported('exports', await measureExports(cost));
  if (has('imports')) results['imports'] = reported('imports', await measureReads(cost));
  if (has('servers')) {
    const { kvBytes, maxContext } = small.load;
    const memory = { kvTokens: number('kv-tokens'), kvBytes, maxContext };
    results['servers'] = await compareServers({ ...common, ...memory, program: peer ?? null, shape, repeats: pairs });
  }
  if (values.json !== undefined)
    writeFileSync(
      values.json,
      `${JSON.stringify({ bench: 'prefix', commit: commit(), at: new Date().toISOString(), machine: machine(), model, ...results }, null, 2)}\n`,
    );
}

const withPool = (load: LoadOptions, tokens: number, bytes: number): LoadOptions => ({
  ...load,
  maxContext: Math.min(MAX_CONTEXT, tokens),
  kvBytes: tokens * bytes,
});

/** Returns the size of the KV cache in bytes per token position. */
async function bytesPerToken({ model, load }: { model: string; load: LoadOptions }): Promise<number> {
  const native = await loadAddon().load(`${model}#size`, model, load, () => undefined);
  const { full, window } = native.pageSizes;
  await native.close();
  return Math.ceil((full + window) / 16);
}

function reported(name: string, pairs: readonly Gaps[]): object {
  const percentiles = pairs.map((pair) => ({
    with: percentilesOf(pair.with),
    without: percentilesOf(pair.without),
    bytes: pair.bytes,
  }));
  const all = {
    with: percentilesOf(pairs.flatMap((pair) => pair.with)),
    without: percentilesOf(pairs.flatMap((pair) => pair.without)),
  };
  const change = (of: 'p50' | 'p99'): string =>
    `${shown(spreadOf(percentiles.map((pair) => pair.without[of])))} → ${shown(spreadOf(percentiles.map((pair) => pair.with[of])))}` +
    `, median change ${signed(spreadOf(percentiles.map((pair) => pair.with[of] / pair.without[of] - 1)).median)}` +
    `, all runs together ${signed(all.with[of] / all.without[of] - 1)}`;
  print(`inter-token latency of other streams in ms, without and with ${name}; medians of runs`, [
    ['p50', change('p50')],
    ['p99', change('p99')],
    ['MB per run', shown(spreadOf(pairs.map(({ bytes }) => bytes / 1e6)))],
  ]);
  return { pairs: percentiles, all };
}
