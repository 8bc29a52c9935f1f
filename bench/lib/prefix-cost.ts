// Inter-token latency of other streams while pages are exported, and while they are imported.
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
  /** Prompt tokens of the requests whose pages are copied. */
  readonly tokens: number;
  readonly seconds: number;
  readonly pairs: number;
  /** Time from one request to the next. */
  readonly everyMs: number;
}

/** Gaps between tokens, in ms. */
export interface Gaps {
  readonly with: readonly number[];
  readonly without: readonly number[];
  /** Bytes of pages that were copied. */
  readonly bytes: number;
}

const STREAM_TOKENS = 256;
const WARM_UP_MS = 1_000;

/** One request after another computes its prompt; its pages are exported or not. */
export async function measureExports(options: CostOptions): Promise<Gaps[]> {
  return await inPairs(options, async (tiered, isWith) => {
    await tiered.answer(promptOf(tiered, options.tokens), isWith);
  });
}

/** Stored prompts are imported one after another, or nothing happens. */
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

/** Alternates between work with and without copies in one engine. */
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
      // Every other pair is run in the opposite order.
      for (const kind of pair % 2 === 0 ? (['without', 'with'] as const) : (['with', 'without'] as const)) {
        gaps = runs[kind];
        for (const end = performance.now() + seconds * 1000; performance.now() < end; ) {
          const next = sleep(everyMs);
          await work(tiered, kind === 'with');
          await next;
        }
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
