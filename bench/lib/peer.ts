// Measures another engine for comparison: llama-bench and llama-batched-bench of llama.cpp, or of a fork with the same
// options. Each measurement is a separate process with the same file, threads and lengths as ours.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);
const MAX_OUTPUT = 16 << 20;
/** Prompts of at least this many tokens need no separate warm-up. */
const LONG = 2_048;

export interface PeerOptions {
  bench: string | null;
  batchedBench: string | null;
  model: string;
  threads: number;
}

/** Measures the tokens per second of prefilling a prompt of `length` tokens. Null if there is no program for it. */
export function peerPrefill(peer: PeerOptions, length: number): (() => Promise<number>) | null {
  const program = peer.bench;
  return program === null
    ? null
    : () => llamaBench(peer, program, ['-p', `${length}`, '-n', '0', ...(length >= LONG ? ['--no-warmup'] : [])]);
}

/** Measures the tokens per second of decoding one response of `tokens` after `depth` tokens. */
export function peerDecode(peer: PeerOptions, depth: number, tokens: number): (() => Promise<number>) | null {
  const program = peer.bench;
  return program === null
    ? null
    : () => llamaBench(peer, program, ['-p', '0', '-n', `${tokens}`, ...(depth > 0 ? ['-d', `${depth}`] : [])]);
}

/**
 * Measures the tokens per second of decoding `batch` responses together, each after its own prompt of `prompt` tokens.
 */
export function peerBatch(
  peer: PeerOptions,
  batch: number,
  prompt: number,
  tokens: number,
): (() => Promise<number>) | null {
  const program = peer.batchedBench;
  return program === null ? null : () => llamaBatchedBench(peer, program, batch, prompt, tokens);
}

async function llamaBench(peer: PeerOptions, program: string, args: string[]): Promise<number> {
  const { stdout } = await run(program, ['-m', peer.model, '-t', `${peer.threads}`, '-r', '1', '-o', 'json', ...args], {
    maxBuffer: MAX_OUTPUT,
  });
  const begin = stdout.indexOf('[');
  const rows = JSON.parse(stdout.slice(begin)) as { avg_ts?: number }[];
  return positive(program, rows[0]?.avg_ts);
}

async function llamaBatchedBench(
  peer: PeerOptions,
  program: string,
  batch: number,
  prompt: number,
  tokens: number,
): Promise<number> {
  const context = Math.max(512, batch * (prompt + tokens));
  const { stdout } = await run(
    program,
    [
      '-m',
      peer.model,
      '-t',
      `${peer.threads}`,
      '-c',
      `${context}`,
      '-npp',
      `${prompt}`,
      '-ntg',
      `${tokens}`,
      '-npl',
      `${batch}`,
    ],
    { maxBuffer: MAX_OUTPUT },
  );
  // | PP | TG | B | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s | T s | S t/s |
  const row = stdout
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()))
    .find((cells) => cells[1] === `${prompt}` && cells[3] === `${batch}`);
  return positive(program, Number(row?.[8]));
}

function positive(program: string, rate: number | undefined): number {
  if (rate === undefined || !(rate > 0)) throw new Error(`${program} reported no rate`);
  return rate;
}
