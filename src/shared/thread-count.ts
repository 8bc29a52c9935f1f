// The number of threads that serve requests. It is fixed when a thread starts. Limits per process are divided by this
// number.
import { isMainThread, workerData } from 'node:worker_threads';

/** 1 on the main thread, which either serves all requests alone or serves none. */
export const threadCount: number = isMainThread
  ? 1
  : Number((workerData as { threads?: unknown } | null)?.threads ?? 1);

/** This thread's share of `total`; at least 1. */
export const shareOf = (total: number): number => Math.max(1, Math.floor(total / threadCount));
