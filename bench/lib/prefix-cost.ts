// Measures how the export and import of KV pages affect the inter-token latency of other streams.
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type { LoadOptions, SubmitOptions } from '../../src/engine/addon-types.js';
import { submission } from './engine-requests.js';
import { SteadyAnswers } from './steady-answers.js';
import { TieredEngine } from './tiered-engine.js';

export interface CostOptions {
  readonly model: string;
  readonly load: LoadOptions;
  readonly dir: string;
  readonly streams: number;
  /** Prompt tokens of each request whose pages are exported or imported. */
  readonly tokens: number;
  readonly seconds: number;
  readonly pairs: number;
  /** Time from the start of one request to the start of the next, in ms. */
  readonly everyMs: number;
}

/** Gaps between the tokens of the other streams, in ms, with and without exports or imports. */
export interface Gaps {
  readonly with: readonly number[];
  readonly without: readonly number[];
  /** Bytes of KV pages that were exported or imported. */
  readonly bytes: number;
}

const STREAM_TOKENS = 256;
const WARM_UP_MS = 1_000;

/**
 * Measures the other streams while requests prefill their prompts one after another. The prompts' pages are exported in
 * half of the runs.
 */
export async function measureExports(options: CostOptions): Promise<Gaps[]> {
  return await inPairs(options, async (tiered, isWith) => {
    await tiered.answer(promptOf(tiered, options.tokens), isWith);
  });
}

/** Measures the other streams while stored prompts are imported one after another, and while nothing is imported. */
export async function measureReads(options: CostOptions): Promise<Gaps[]> {
  const prompts: SubmitOptions[] = [];
  let at = 0;
  return await inPairs(
    options,
    async (tiered, isWith) => {
      if (!isWith) return;
      const { tokens, release } = await tiered.read(prompts[at++ % prompts.length]!.prompt);
      release();
      if (tokens === 0) throw new Error('nothing was read: all prompts fit into memory');
    },
    async (tiered) => {
      for (let i = 0; i < 4; i++) {
        prompts.push(promptOf(tiered, options.tokens));
        await tiered.answer(prompts[i]!);
      }
      await tiered.written();
    },
  );
}

const promptOf = ({ engine }: TieredEngine, tokens: number): SubmitOptions => ({
  ...submission(engine, tokens, 1),
  prefixCache: true,
});

/**
 * Runs pairs of measurements in one engine. In each pair, requests with exports or imports alternate with requests
 * without them, so that changes in the machine's load affect both equally.
 */
async function inPairs(
  { model, load, dir, streams, seconds, pairs, everyMs }: CostOptions,
  work: (tiered: TieredEngine, isWith: boolean) => Promise<void>,
  prepare: (tiered: TieredEngine) => Promise<void> = () => Promise.resolve(),
): Promise<Gaps[]> {
  const folder = mkdtempSync(join(dir, 'prefix-'));
  const tiered = await TieredEngine.open({ model, load, folder });
  let gaps: number[] = [];
  const steady: SteadyAnswers[] = [];
  try {
    await prepare(tiered);
    for (let i = 0; i < streams; i++)
      steady.push(new SteadyAnswers(tiered.engine, (ms) => gaps.push(ms), STREAM_TOKENS));
    await sleep(WARM_UP_MS);
    const measured: Gaps[] = [];
    for (let pair = 0; pair < pairs; pair++) {
      const runs: Record<'with' | 'without', number[]> = { with: [], without: [] };
      const before = await bytesOf(tiered);
      const end = performance.now() + 2 * seconds * 1000;
      for (let slot = pair; performance.now() < end; slot++) {
        const kind = slot % 2 === 0 ? 'without' : 'with';
        gaps = runs[kind];
        const next = sleep(everyMs);
        await work(tiered, kind === 'with');
        await next;
        gaps = [];
        await tiered.written();
      }
      for (const stream of steady) stream.check();
      measured.push({ ...runs, bytes: (await bytesOf(tiered)) - before });
    }
    return measured;
  } finally {
    for (const stream of steady) stream.stop();
    await tiered.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function bytesOf(tiered: TieredEngine): Promise<number> {
  const { writtenBytes, readBytes } = (await tiered.report())!.counts;
  return writtenBytes + readBytes;
}
