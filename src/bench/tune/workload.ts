// Derives a workload from a server's recent requests: their prompt and output lengths and cached tokens, without text.
// No side effects.

import type { TraceRow } from '../load/types.js';
import type { TuneWorkload } from './load.js';

/** A completed request. `at`: milliseconds since the Unix epoch. */
export interface RequestShape {
  readonly at: number;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
}

/**
 * Length unit of shared prefixes, in tokens. Prefixes are rounded down to a multiple, so that no more tokens are
 * cached than for the original requests.
 */
const BLOCK_TOKENS = 16;
/** Block numbers from this one up are unique to a request. Lower numbers identify shared blocks. */
const OWN_BLOCKS = 1_000_000;

/**
 * A trace of the requests in chronological order. A request's cached tokens are modeled as a prefix of the same length,
 * taken from text common to all requests.
 */
export function workloadOf(shapes: readonly RequestShape[]): TuneWorkload {
  const sorted = [...shapes].sort((a, b) => a.at - b.at);
  const first = sorted[0]?.at ?? 0;
  const rows = sorted.map(({ at, inputTokens, cachedTokens, outputTokens }, n): TraceRow => {
    const shared = Math.floor(Math.min(cachedTokens, inputTokens - 1) / BLOCK_TOKENS);
    return {
      at: at - first,
      promptTokens: inputTokens,
      outputTokens,
      blocks: [...Array.from({ length: shared }, (_, block) => block), OWN_BLOCKS + n],
    };
  });
  return { kind: 'rows', rows, blockTokens: BLOCK_TOKENS };
}

/**
 * A description such as "500 recent requests: median prompt 220 tokens (p90 900), median output 64 tokens (p90 300)".
 */
export function workloadText(workload: TuneWorkload, from: 'recent' | 'trace' = 'recent'): string {
  if (workload.kind === 'fixed')
    return `prompts of ${workload.promptTokens} tokens, outputs of ${workload.outputTokens} tokens`;
  const { rows } = workload;
  const at = (values: readonly number[], share: number): number =>
    [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(share * values.length))] ?? 0;
  const prompts = rows.map(({ promptTokens }) => promptTokens);
  const answers = rows.map(({ outputTokens }) => outputTokens);
  return `${rows.length} ${from === 'recent' ? 'recent requests' : 'requests of a trace'}: median prompt ${at(prompts, 0.5)} tokens (p90 ${at(prompts, 0.9)}), median output ${at(answers, 0.5)} tokens (p90 ${at(answers, 0.9)})`;
}
