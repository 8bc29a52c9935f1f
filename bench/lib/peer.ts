// Measures another engine for comparison, with llama-bench and llama-batched-bench from llama.cpp or from a fork with
// the same options. Each measurement is a separate process with the same model file, thread count and lengths as ours.
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
  /** More arguments for llama-bench. */
  extra?: string[];
}

/** Measures prefill of a prompt of `length` tokens, in tokens per second. Null if the peer has no program for it. */
export function peerPrefill(peer: PeerOptions, length: number): (() => Promise<number>) | null {
  const program = peer.bench;
  return program === null
    ? null
    : () => llamaBench(peer, program, ['-p', `${length}`, '-n', '0', ...(length >= LONG ? ['--no-warmup'] : [])]);
}

/** Measures decoding one response of `tokens` tokens at context depth `depth`, in tokens per second. */
export function peerDecode(peer: PeerOptions, depth: number, tokens: number): (() => Promise<number>) | null {
  const program = peer.bench;
  return program === null
    ? null
    : () => llamaBench(peer, program, ['-p', '0', '-n', `${tokens}`, ...(depth > 0 ? ['-d', `${depth}`] : [])]);
}

/** Measures decoding `batch` responses together, each after its own prompt of `prompt` tokens, in tokens per second. */
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
  const { stdout } = await run(
    program,
    ['-m', peer.model, '-t', `${peer.threads}`, '-r', '1', '-o', 'json', ...(peer.extra ?? []), ...args],
    {
      maxBuffer: MAX_OUTPUT,
    },
  );
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
  const { stdout, stderr } = await run(
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
  // Forks print the table to stderr.
  const row = `${stdout}\n${stderr}`
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()))
    .find((cells) => cells[1] === `${prompt}` && cells[3] === `${batch}`);
  return positive(program, Number(row?.[8]));
}

function positive(program: string, rate: number | undefined): number {
  if (rate === undefined || !(rate > 0)) throw new Error(`${program} reported no rate`);
  return rate;
}
