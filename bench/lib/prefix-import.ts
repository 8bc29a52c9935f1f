// Measures the time until a stored prefix can be used, and compares it with prefilling the prefix and with only reading
// its bytes from the files.
import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readdirSync, readSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type { LoadOptions } from '../../src/engine/addon-types.js';
import { submission } from './engine-requests.js';
import { spreadOf, type Spread } from './statistics.js';
import { TieredEngine } from './tiered-engine.js';

export interface ImportFigures {
  readonly tokens: number;
  readonly bytes: number;
  readonly prefillMs: Spread;
  /** Time from the end of the request until all its pages are on disk, in ms. */
  readonly storeMs: number;
  /** Time to import the prefix if its page files are in the operating system's page cache, in ms. */
  readonly warmMs: Spread;
  /** Time to import the prefix if its page files are only on disk, in ms. */
  readonly coldMs: Spread;
  /** Time to read the page files sequentially from disk without decrypting them, in ms. */
  readonly diskMs: Spread;
}

export interface ImportOptions {
  readonly model: string;
  readonly load: LoadOptions;
  readonly dir: string;
  readonly tokens: number;
  readonly repeats: number;
}

/**
 * Delay between loading the model and the first request, in ms. A server has a similar delay, during which the engine
 * prepares its page pool's memory.
 */
const START_MS = 2_000;

/** Loads the model again for each repetition, so that the pages are not in the engine's memory. */
export async function measureImports({ model, load, dir, tokens, repeats }: ImportOptions): Promise<ImportFigures> {
  const folder = mkdtempSync(join(dir, 'prefix-'));
  const prefillMs: number[] = [];
  const warmMs: number[] = [];
  const coldMs: number[] = [];
  const diskMs: number[] = [];
  let bytes = 0;
  let storeMs = 0;
  const opened = (): Promise<TieredEngine> => TieredEngine.open({ model, load, folder });
  try {
    const first = await opened();
    const request = { ...submission(first.engine, tokens, 1), prefixCache: true };
    const next = { ...request, prompt: Int32Array.from([...request.prompt, 1]) };
    prefillMs.push((await first.answer(request)).firstTokenMs);
    const ended = performance.now();
    await first.written();
    storeMs = performance.now() - ended;
    bytes = (await first.report())!.counts.writtenBytes;
    await first.close();
    for (let i = 0; i < repeats; i++) {
      for (const [times, isCold] of [
        [warmMs, false],
        [coldMs, true],
      ] as const) {
        const again = await opened();
        await sleep(START_MS);
        if (i > 0 && !isCold) {
          const other = { ...submission(again.engine, tokens, 1), prefixCache: false };
          prefillMs.push((await again.answer(other, false)).firstTokenMs);
        }
        if (isCold) {
          dropFromPageCache(folder);
          diskMs.push(readFromDisk(folder));
          dropFromPageCache(folder);
        } else readFromDisk(folder);
        const from = performance.now();
        const read = await again.read(next.prompt);
        times.push(performance.now() - from);
        if (read.tokens < tokens - 16) throw new Error(`only ${read.tokens} of ${tokens} tokens were read`);
        read.release();
        await again.close();
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return {
    tokens,
    bytes,
    prefillMs: spreadOf(prefillMs),
    storeMs,
    warmMs: spreadOf(warmMs),
    coldMs: spreadOf(coldMs),
    diskMs: spreadOf(diskMs),
  };
}

const pageFiles = (folder: string): string[] =>
  readdirSync(folder)
    .filter((name) => name.endsWith('.pages'))
    .map((name) => join(folder, name));

/**
 * Drops the page files from the operating system's page cache. GNU dd does this when it copies nothing with the nocache
 * flag.
 */
function dropFromPageCache(folder: string): void {
  for (const path of pageFiles(folder))
    execFileSync('dd', [`if=${path}`, 'iflag=nocache', 'count=0'], { stdio: 'ignore' });
}

/** Reads all page files and returns the time this took, in ms. */
function readFromDisk(folder: string): number {
  const buffer = Buffer.allocUnsafe(1 << 20);
  const from = performance.now();
  for (const path of pageFiles(folder)) {
    const file = openSync(path, 'r');
    for (let left = statSync(path).size; left > 0; left -= readSync(file, buffer));
    closeSync(file);
  }
  return performance.now() - from;
}
