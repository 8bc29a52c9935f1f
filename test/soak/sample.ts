// Measures a running process's memory, file descriptors and threads, as reported by Linux.
import { existsSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Sample {
  /** Private bytes, excluding mapped files. */
  anonymous: number;
  resident: number;
  descriptors: number;
  threads: number;
  /** Arenas of the C library's allocator, excluding the main arena. */
  arenas: number;
}

/** Memory in bytes that a JavaScript thread retains after a collection (collect.ts). */
export interface Isolate {
  thread: number;
  used: number;
  /** Committed heap pages, in bytes. */
  heap: number;
  external: number;
  malloced: number;
  spaces: Record<string, number>;
}

/** A sample taken after a full collection in all threads. */
export interface Kept extends Sample {
  /** Bytes used by all JavaScript objects. */
  used: number;
  /** Anonymous memory outside the heaps: used by the engine and the C library's allocator. */
  native: number;
  isolates: Isolate[];
}

const ARENA = 64n * 1024n * 1024n;

export function sampleOf(pid: number): Sample {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const bytes = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(rollup)?.[1] ?? NaN) * 1024;
  return {
    anonymous: bytes('Anonymous'),
    resident: bytes('Rss'),
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    threads: readdirSync(`/proc/${pid}/task`).length,
    arenas: arenasIn(readFileSync(`/proc/${pid}/maps`, 'utf8')),
  };
}

/**
 * Runs a full collection in all threads of the process and takes a sample. Returns null if the process did not respond
 * in time.
 */
export async function keptOf(pid: number, file: string, threads: number): Promise<Kept | null> {
  rmSync(file, { force: true });
  process.kill(pid, 'SIGUSR2');
  for (let tries = 1_200; tries > 0 && !existsSync(file); tries--) await sleep(50);
  if (!existsSync(file)) return null;
  const sample = sampleOf(pid);
  const isolates = JSON.parse(readFileSync(file, 'utf8')) as Isolate[];
  if (isolates.length !== threads) return null;
  const sum = (name: 'used' | 'heap'): number => isolates.reduce((all, one) => all + one[name], 0);
  return { ...sample, used: sum('used'), native: sample.anonymous - sum('heap'), isolates };
}

/** Counts allocator arenas. An arena's heap starts at a multiple of 64 MiB, and its unused part is not readable. */
function arenasIn(maps: string): number {
  const parts = maps.split('\n').map((line) => /^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ 0\s*$/.exec(line));
  return parts.filter((part, at) => {
    const next = parts[at + 1];
    if (part?.[3] !== 'rw-p' || next?.[3] !== '---p' || next[1] !== part[2]) return false;
    const begin = BigInt(`0x${part[1]}`);
    return begin % ARENA === 0n && BigInt(`0x${next[2]}`) - begin === ARENA;
  }).length;
}

/**
 * Growth from the third quarter of the samples to the fourth, as a fraction. Medians are compared because
 * garbage-collected memory fluctuates.
 */
export function growth(samples: readonly number[]): number {
  const half = samples.slice(samples.length >> 1);
  return median(half.slice(half.length >> 1)) / median(half.slice(0, half.length >> 1)) - 1;
}

/** The maximum in each half of the run. */
export function mostOf(samples: readonly number[]): [number, number] {
  const middle = samples.length >> 1;
  return [Math.max(...samples.slice(0, middle)), Math.max(...samples.slice(middle))];
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? NaN;
}
