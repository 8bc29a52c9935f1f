// Runs conversations that do not fit into memory together, with or without the storage tier. Measures time to first
// token, prefilled tokens, bytes read and written, and inter-token latency of other streams.
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';

import { percentileOf } from '../../src/bench/load/distribution.js';
import type { LoadOptions } from '../../src/engine/addon-types.js';
import { submission } from './engine-requests.js';
import { SteadyAnswers } from './steady-answers.js';
import { TieredEngine } from './tiered-engine.js';

export interface TraceShape {
  readonly conversations: number;
  readonly turns: number;
  /** Length of the system prompt in tokens. There are two system prompts, each shared by half of the conversations. */
  readonly system: number;
  readonly user: number;
  readonly answer: number;
  readonly streams: number;
}

export interface TraceFigures {
  readonly seconds: number;
  readonly firstTokenMs: Percentiles;
  /** Time to first token of the turns after a conversation's first turn, in ms. */
  readonly laterFirstTokenMs: Percentiles;
  readonly promptTokens: number;
  readonly computedTokens: number;
  readonly writtenBytes: number;
  readonly readBytes: number;
  readonly gapMs: Percentiles;
}

export interface Percentiles {
  readonly count: number;
  readonly p50: number;
  readonly p99: number;
}

export function percentilesOf(values: readonly number[]): Percentiles {
  const sorted = values.toSorted((a, b) => a - b);
  return { count: sorted.length, p50: percentileOf(sorted, 50), p99: percentileOf(sorted, 99) };
}

const STREAM_TOKENS = 256;

/** Runs turn 1 of all conversations, then turn 2 of all, and so on. Requests run one at a time. */
export async function runTrace(
  { model, load, dir }: { readonly model: string; readonly load: LoadOptions; readonly dir: string },
  shape: TraceShape,
  hasTier: boolean,
): Promise<TraceFigures> {
  const folder = mkdtempSync(join(dir, 'prefix-'));
  const tiered = await TieredEngine.open({ model, load, folder: hasTier ? folder : null });
  const { engine } = tiered;
  const fresh = (tokens: number): Int32Array => submission(engine, tokens, 1).prompt;
  const systems = [fresh(shape.system), fresh(shape.system)];
  const histories = Array.from({ length: shape.conversations }, (_, i) => [...systems[i % 2]!]);
  const gaps: number[] = [];
  const firsts: number[] = [];
  const laterFirsts: number[] = [];
  let promptTokens = 0;
  let cachedTokens = 0;
  const streams = Array.from(
    { length: shape.streams },
    () => new SteadyAnswers(engine, (ms) => gaps.push(ms), STREAM_TOKENS),
  );
  try {
    const from = performance.now();
    for (let turn = 0; turn < shape.turns; turn++) {
      for (const history of histories) {
        history.push(...fresh(shape.user));
        const request = { ...submission(engine, 1, shape.answer), prompt: Int32Array.from(history), prefixCache: true };
        const answer = await tiered.answer(request);
        firsts.push(answer.firstTokenMs);
        if (turn > 0) laterFirsts.push(answer.firstTokenMs);
        promptTokens += history.length;
        cachedTokens += answer.cachedTokens;
        history.push(...answer.tokens);
      }
    }
    const seconds = (performance.now() - from) / 1000;
    for (const stream of streams) stream.check();
    const counts = (await tiered.report())?.counts;
    return {
      seconds,
      firstTokenMs: percentilesOf(firsts),
      laterFirstTokenMs: percentilesOf(laterFirsts),
      promptTokens,
      computedTokens: promptTokens - cachedTokens,
      writtenBytes: counts?.writtenBytes ?? 0,
      readBytes: counts?.readBytes ?? 0,
      gapMs: percentilesOf(gaps),
    };
  } finally {
    for (const stream of streams) stream.stop();
    await tiered.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
