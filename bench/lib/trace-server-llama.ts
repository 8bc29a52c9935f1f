// Starts llama-server for a trace with one of its methods of keeping prompts.
import type { ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';

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

/**
 * slots: only the prompts in the slots (`--cache-ram 0`). memory: the prompt cache in host memory (`--cache-ram`).
 * files: a slot file per conversation (`--slot-save-path`), restored before each request of the conversation and saved
 * after it.
 */
export type LlamaMode = 'slots' | 'memory' | 'files';

export interface LlamaServerOptions {
  readonly program: string;
  readonly model: string;
  readonly dir: string;
  readonly threads: number;
  /** Number of KV cache positions, shared by all slots. */
  readonly kvTokens: number;
  readonly slots: number;
  readonly mode: LlamaMode;
}

/** Size of the prompt cache in host memory, in MiB: more than any trace needs. */
const CACHE_MIB = 8_192;
/** The slot that the conversations use in mode `files`. */
const SLOT = 0;

interface Chunk {
  readonly tokens?: readonly number[];
  readonly timings?: { readonly cache_n: number };
  readonly error?: unknown;
}

export class LlamaServer implements TraceServer {
  readonly #folder: string;
  #child: ChildProcess | null = null;
  #url = '';
  #moved = { written: 0, read: 0 };
  readonly #log = new PromptCacheLog();

  constructor(private readonly options: LlamaServerOptions) {
    this.#folder = mkdtempSync(join(options.dir, 'prefix-llama-'));
  }

  async start(): Promise<void> {
    const { program, model, threads, kvTokens, slots, mode } = this.options;
    const port = await freePort();
    const args = [
      ...['-m', model, '--port', `${port}`, '-t', `${threads}`, '-tb', `${threads}`, '-c', `${kvTokens}`],
      ...['--parallel', `${slots}`, '--kv-unified', '--cache-ram', mode === 'memory' ? `${CACHE_MIB}` : '0'],
      ...['--slot-save-path', `${this.#folder}/`, '-lv', mode === 'memory' ? '4' : '1'],
    ];
    this.#url = `http://127.0.0.1:${port}`;
    this.#child = await startProgram(program, args, { port, path: '/health', onLog: (text) => this.#log.add(text) });
  }

  async complete({ prompt, maxTokens, conversation, signal, onTokens }: CompletionRequest): Promise<Completion> {
    const usesFiles = this.options.mode === 'files';
    const file = `conversation-${conversation}.bin`;
    if (usesFiles && conversation !== null && existsSync(join(this.#folder, file)))
      this.#moved.read += await this.#slot('restore', file, 'n_read');
    const body = {
      prompt,
      n_predict: maxTokens,
      temperature: 0,
      ignore_eos: true,
      return_tokens: true,
      cache_prompt: true,
      stream: true,
      ...(usesFiles && conversation !== null ? { id_slot: SLOT } : {}),
    };
    const completion = await streamed(`${this.#url}/completion`, { body, signal }, read, onTokens);
    if (usesFiles && conversation !== null) this.#moved.written += await this.#slot('save', file, 'n_written');
    return completion;
  }

  moved(): Promise<MovedBytes> {
    const { written, read } = this.#log;
    return Promise.resolve({ written: this.#moved.written + written, read: this.#moved.read + read });
  }

  async stop(): Promise<void> {
    if (this.#child !== null) await stopProgram(this.#child);
    this.#child = null;
  }

  close(): void {
    this.#child?.kill('SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Saves or restores the conversations' slot. Returns the number of bytes. */
  async #slot(action: 'save' | 'restore', filename: string, count: 'n_written' | 'n_read'): Promise<number> {
    const answer = await fetch(`${this.#url}/slots/${SLOT}?action=${action}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ filename }),
    });
    const body = (await answer.json()) as Record<string, number>;
    if (!answer.ok) throw new Error(`${action} of a slot: ${answer.status} ${JSON.stringify(body)}`);
    return body[count]!;
  }
}

/**
 * Counts the bytes that the prompt cache in host memory saves and loads. llama-server reports them only in its log: the
 * size when it saves a prompt, and the match, but not the size, when it loads one.
 */
export class PromptCacheLog {
  written = 0;
  read = 0;
  #rest = '';
  #bytesPerToken = 0;
  readonly #candidates = new Map<string, number>(); // length of a cached prompt, by its match

  add(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() as string;
    for (const line of lines) this.#line(line);
  }

  #line(line: string): void {
    const saved = /saving prompt with length (\d+), total state size = ([\d.]+) MiB/.exec(line);
    if (saved !== null) {
      const bytes = Number(saved[2]) * 2 ** 20;
      this.written += bytes;
      this.#bytesPerToken = bytes / Number(saved[1]);
    }
    if (line.includes('looking for better prompt')) this.#candidates.clear();
    const candidate = /prompt with length +(\d+), lcp = +\d+, (f_keep = [\d.]+, f_sim = [\d.]+)/.exec(line);
    if (candidate !== null) this.#candidates.set(candidate[2]!, Number(candidate[1]));
    const found = /found better prompt with (f_keep = [\d.]+, f_sim = [\d.]+)/.exec(line);
    if (found !== null) this.read += (this.#candidates.get(found[1]!) ?? 0) * this.#bytesPerToken;
  }
}

function read(data: unknown): StreamEvent {
  const { tokens = [], timings, error } = data as Chunk;
  if (error !== undefined) throw new Error(`llama-server failed: ${JSON.stringify(error)}`);
  return { tokens, cached: timings?.cache_n ?? null };
}
