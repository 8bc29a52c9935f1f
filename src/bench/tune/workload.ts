// A workload from what was asked of a server before: how long prompts and answers were and what was cached, no text. Pure.

import type { TraceRow } from '../load/types.js';
import type { TuneWorkload } from './load.js';

/** A request that was answered. `at`: milliseconds since 1970. */
export interface RequestShape {
  readonly at: number;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
}

/** What is shared begins at multiples of that: no more of it is cached than was. */
const BLOCK_TOKENS = 16;
/** Above the numbers of shared blocks. */
const OWN_BLOCKS = 1_000_000;

/** In order of time. What was cached is a beginning that all have in common, as far as each had it. */
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

/** In words: "500 recent requests, prompts of 220 tokens (90 %: 900), answers of 64". */
export function workloadText(workload: TuneWorkload, from: 'recent' | 'trace' = 'recent'): string {
  if (workload.kind === 'fixed')
    return `prompts of ${workload.promptTokens} tokens, answers of ${workload.outputTokens}`;
  const { rows } = workload;
  const at = (values: readonly number[], share: number): number =>
    [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(share * values.length))] ?? 0;
  const prompts = rows.map(({ promptTokens }) => promptTokens);
  const answers = rows.map(({ outputTokens }) => outputTokens);
  return `${rows.length} ${from === 'recent' ? 'recent requests' : 'requests of a trace'}: prompts of ${at(prompts, 0.5)} tokens (90 percent up to ${at(prompts, 0.9)}), answers of ${at(answers, 0.5)} (${at(answers, 0.9)})`;
}
