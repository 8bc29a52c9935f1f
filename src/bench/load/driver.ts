// Runs a load test, on the calling thread or on several worker threads. The configuration is checked before any request
// is sent.

import { performance } from 'node:perf_hooks';
import { percentileOf } from './distribution.js';
import { Drive } from './drive.js';
import type { DriveResult } from './drive.js';
import { DriveThread } from './drive-thread.js';
import { Ledger, newLedgerMemory } from './ledger.js';
import type { LedgerMemory } from './ledger.js';
import { LoadError } from './load-error.js';
import type { LoadHooks, LoadResult, LoadRun } from './types.js';

const MAX_THREADS = 64;
const MAX_AT_ONCE = 20_000;
const PROGRESS_MS = 200;

/** Throws a LoadError that names the field. */
function check({ arrival, length, threads, target, conversation, workload, maxConcurrency }: LoadRun): void {
  const positive = (what: string, value: number, most = Infinity): void => {
    if (!(value > 0 && value <= most && Number.isFinite(value)))
      throw new LoadError(`${what} is ${value}, but must be above 0${most === Infinity ? '' : ` and at most ${most}`}`);
  };
  positive('threads', threads, MAX_THREADS);
  if (arrival.kind === 'closed') positive('concurrency', arrival.concurrency, MAX_AT_ONCE);
  else if (arrival.kind === 'trace') positive('speed', arrival.speed);
  else if (arrival.kind === 'bursts') {
    positive('burst size', arrival.size, MAX_AT_ONCE);
    positive('time between bursts', arrival.everyMs);
  } else positive('rate', arrival.rate, 100_000);
  if (arrival.kind === 'gamma') positive('burstiness', arrival.burstiness);
  if (maxConcurrency !== null) positive('max concurrency', maxConcurrency, MAX_AT_ONCE);
  if (length.requests !== null) positive('requests', length.requests);
  if (length.durationMs !== null) positive('duration', length.durationMs);
  if (length.requests === null && length.durationMs === null && arrival.kind !== 'trace' && workload.kind !== 'trace')
    throw new LoadError('a load needs a number of requests or a duration');
  if (conversation === 'stored' && target.dialect !== 'responses')
    throw new LoadError(`stored responses need the responses dialect, not ${target.dialect}`);
  if (!URL.canParse(target.url) || !/^https?:$/.test(new URL(target.url).protocol))
    throw new LoadError(`"${target.url}" is not a URL that begins with http:// or https://`);
  const times =
    workload.kind === 'trace' || (workload.kind === 'conversations' && workload.sessions.some(({ at }) => at !== null));
  if (arrival.kind === 'trace' && !times)
    throw new LoadError('this workload has no arrival times; set a rate or a concurrency');
  if (workload.kind === 'conversations' && workload.sessions.length === 0)
    throw new LoadError('the workload has no conversations');
  if (workload.kind === 'trace' && workload.rows.length === 0) throw new LoadError('the trace has no requests');
}

/**
 * See LoadRun. Resolves when the last response is complete or, after `signal`, with the results so far. Rejects with
 * LoadError.
 */
export async function runLoad(asked: LoadRun, hooks: LoadHooks = {}): Promise<LoadResult> {
  check(asked);
  const run = withEnd(asked);
  const { signal, onProgress, onRecord } = hooks;
  const memory = newLedgerMemory();
  const ledger = new Ledger(memory, run.warmup, run.length);
  const parts =
    run.threads === 1 ? [new Drive(run, memory, { index: 0, count: 1 }, onRecord)] : await threads(run, memory);
  const startedAt = performance.timeOrigin + performance.now();
  const elapsed = (): number => performance.timeOrigin + performance.now() - startedAt;
  const stop = (): void => {
    for (const part of parts) part.stop();
  };
  const ticking =
    onProgress === undefined ? undefined : setInterval(() => onProgress(ledger.progress(elapsed())), PROGRESS_MS);
  signal?.addEventListener('abort', stop);
  try {
    if (signal?.aborted === true) stop();
    const results = await Promise.all(parts.map((part) => part.go(startedAt)));
    onProgress?.(ledger.progress(elapsed()));
    return { ...joined(results), startedAt, endedMs: elapsed(), stopped: signal?.aborted === true };
  } finally {
    clearInterval(ticking);
    signal?.removeEventListener('abort', stop);
    for (const part of parts) part.end();
  }
}

/** If a trace run has no request limit, sets one so that the run ends with the trace's last request. */
function withEnd(run: LoadRun): LoadRun {
  const { workload, warmup, length } = run;
  if (workload.kind !== 'trace' || length.requests !== null) return run;
  return { ...run, length: { ...length, requests: Math.max(1, workload.rows.length - (warmup.requests ?? 0)) } };
}

async function threads(run: LoadRun, memory: LedgerMemory): Promise<DriveThread[]> {
  const all = Array.from(
    { length: run.threads },
    (_, index) => new DriveThread(run, memory, { index, count: run.threads }),
  );
  await Promise.all(all.map((one) => one.ready()));
  return all;
}

function joined(results: readonly DriveResult[]): Pick<LoadResult, 'records' | 'client'> {
  const records = results.flatMap((one) => one.records);
  if (results.length > 1) records.sort((a, b) => a.end - b.end);
  const lags = Float32Array.from(results.flatMap(({ lags: own }) => [...own])).sort();
  return {
    records,
    client: {
      utilization: Math.max(...results.map(({ utilization }) => utilization)),
      // CPU time is measured for the whole process, so every thread reports the same total.
      cpuSeconds: Math.max(...results.map(({ cpuSeconds }) => cpuSeconds)),
      lagP99: lags.length === 0 ? 0 : percentileOf(lags, 99),
    },
  };
}
