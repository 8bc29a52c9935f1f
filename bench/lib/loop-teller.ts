// Loaded with --import into a benchmarked server that has an IPC channel to its parent. On request, it reports the
// durations of garbage collections and the event-loop delays on the main thread since the last request. On the message
// 'collect', it runs the kind of collection that V8 runs a hundred seconds after the last full collection: all garbage
// is freed, and the young generation shrinks.
import { constants, monitorEventLoopDelay, PerformanceObserver, type PerformanceEntry } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread } from 'node:worker_threads';

type PerformanceNodeEntry = PerformanceEntry & { readonly detail?: unknown };

export interface LoopTold {
  /** For each kind of collection: the count, the total duration and the longest duration in milliseconds. */
  readonly gc: Readonly<Record<string, { count: number; ms: number; longest: number }>>;
  /** How late timers fired, in milliseconds. */
  readonly late: { p50: number; p99: number; longest: number };
}

const KINDS: Readonly<Record<number, string>> = {
  [constants.NODE_PERFORMANCE_GC_MINOR]: 'scavenge',
  [constants.NODE_PERFORMANCE_GC_MAJOR]: 'mark_compact',
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL]: 'incremental',
  [constants.NODE_PERFORMANCE_GC_WEAKCB]: 'weak',
};

if (isMainThread && process.send !== undefined) {
  let gc: Record<string, { count: number; ms: number; longest: number }> = {};
  new PerformanceObserver((list) => {
    for (const { duration, detail } of list.getEntries() as PerformanceNodeEntry[]) {
      const of = (gc[KINDS[(detail as { kind: number }).kind] ?? 'other'] ??= { count: 0, ms: 0, longest: 0 });
      of.count++;
      of.ms += duration;
      of.longest = Math.max(of.longest, duration);
    }
  }).observe({ entryTypes: ['gc'] });
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  process.on('message', (order) => {
    if (order === 'collect') {
      setFlagsFromString('--expose-gc');
      (runInNewContext('gc') as (how: object) => void)({ type: 'major', execution: 'sync', flavor: 'last-resort' });
    }
    const late = { p50: delay.percentile(50) / 1e6, p99: delay.percentile(99) / 1e6, longest: delay.max / 1e6 };
    delay.reset();
    process.send?.({ gc, late } satisfies LoopTold);
    gc = {};
  });
  process.channel?.unref();
}
