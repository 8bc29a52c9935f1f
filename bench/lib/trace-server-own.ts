// Starts this server for a trace, with or without its prefix cache's disk tier.
import type { ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { packageRoot } from '../../src/engine/load-addon.js';
import {
  freePort,
  startProgram,
  stopProgram,
  streamed,
  type Completion,
  type CompletionRequest,
  type MovedBytes,
  type StreamEvent,
  type TraceServer,
} from './trace-server.js';

const KEY = 'bench-prefix-0000000000';
const NAME = 'bench';
/** Time for the server to prepare its page pool's memory, in ms. */
const SETTLE_MS = 2_000;
const TIER_MS = 120_000;
/**
 * All pages count as written to disk if the metrics, which are updated every 2 seconds, do not change for this long, in
 * ms.
 */
const QUIET_MS = 2_500;

export interface OwnServerOptions {
  readonly model: string;
  readonly dir: string;
  readonly threads: number;
  readonly kvBytes: number;
  readonly maxContext: number;
  readonly hasTier: boolean;
}

interface Chunk {
  readonly choices: readonly { readonly token_ids?: readonly number[] | null }[];
  readonly usage?: { readonly prompt_tokens_details: { readonly cached_tokens: number } } | null;
  readonly error?: unknown;
}

export class OwnServer implements TraceServer {
  readonly #data: string;
  #child: ChildProcess | null = null;
  #url = '';
  #before: MovedBytes = { written: 0, read: 0 };

  constructor(private readonly options: OwnServerOptions) {
    this.#data = mkdtempSync(join(options.dir, 'prefix-own-'));
  }

  async start(): Promise<void> {
    const { model, threads, kvBytes, maxContext, hasTier } = this.options;
    const port = await freePort();
    const args = [
      ...[join(packageRoot, 'dist', 'main.js'), 'serve', '--log-level', 'error', '--port', `${port}`],
      ...['--data-dir', this.#data, '--api-key', KEY, '--model', `${NAME}=${model}`, '--metrics-public'],
      ...['--limits-rpm', 'off', '--limits-tpm', 'off', '--limits-concurrency', 'off'],
      ...['--threads', `${threads}`, '--max-context', `${maxContext}`, '--kv-bytes', `${kvBytes}`],
      ...['--kv-disk', hasTier ? 'all' : 'off', '--kv-disk-bytes', `${2 ** 34}`],
    ];
    this.#url = `http://127.0.0.1:${port}`;
    this.#child = await startProgram(process.execPath, args, { port, path: '/readyz' });
    // The tier starts when the model file has been hashed.
    const engines = join(this.#data, 'kv-pages', 'engines.json');
    for (const end = performance.now() + TIER_MS; hasTier && !existsSync(engines); await sleep(100))
      if (performance.now() > end) throw new Error('the disk tier did not start');
    await sleep(SETTLE_MS);
  }

  async complete({ prompt, maxTokens, signal, onTokens }: CompletionRequest): Promise<Completion> {
    const body = {
      model: NAME,
      prompt,
      max_tokens: maxTokens,
      temperature: 0,
      ignore_eos: true,
      return_token_ids: true,
      stream: true,
      stream_options: { include_usage: true },
    };
    const headers = { authorization: `Bearer ${KEY}` };
    return await streamed(`${this.#url}/v1/completions`, { headers, body, signal }, read, onTokens);
  }

  async moved(): Promise<MovedBytes> {
    const { written, read } = await this.#settled();
    return { written: this.#before.written + written, read: this.#before.read + read };
  }

  async stop(): Promise<void> {
    if (this.#child === null) return;
    this.#before = await this.moved();
    await stopProgram(this.#child);
    this.#child = null;
  }

  close(): void {
    this.#child?.kill('SIGKILL');
    rmSync(this.#data, { recursive: true, force: true });
  }

  /** Resolves when all pages are on disk. */
  async #settled(): Promise<MovedBytes> {
    let last = await this.#counters();
    while (this.options.hasTier) {
      await sleep(QUIET_MS);
      const now = await this.#counters();
      if (now.written === last.written && now.read === last.read) break;
      last = now;
    }
    return last;
  }

  async #counters(): Promise<MovedBytes> {
    const text = await (await fetch(`${this.#url}/metrics`)).text();
    const of = (direction: string): number =>
      [...text.matchAll(/^monolith_kv_disk_bytes_total\{(.*)\} (\S+)$/gm)]
        .filter(([, labels]) => labels!.includes(`direction="${direction}"`))
        .reduce((sum, [, , value]) => sum + Number(value), 0);
    return { written: of('written'), read: of('read') };
  }
}

function read(data: unknown): StreamEvent {
  const { choices, usage, error } = data as Chunk;
  if (error !== undefined) throw new Error(`the server failed: ${JSON.stringify(error)}`);
  return {
    tokens: choices.flatMap(({ token_ids }) => token_ids ?? []),
    cached: usage?.prompt_tokens_details.cached_tokens ?? null,
  };
}
