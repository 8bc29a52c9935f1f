// Processes a long list without blocking the event loop.
import { performance } from 'node:perf_hooks';
import { setImmediate as nextIteration } from 'node:timers/promises';

/** Milliseconds of work after which other requests get a turn. */
const SLICE_MS = 2;

/**
 * Calls `work` for each entry, and gives other requests a turn every few milliseconds. Throws the signal's reason if it
 * is aborted in the meantime.
 */
export async function inTurns<T>(
  entries: Iterable<T>,
  work: (entry: T) => Promise<void> | void,
  signal?: AbortSignal,
): Promise<void> {
  let turnEnds = performance.now() + SLICE_MS;
  for (const entry of entries) {
    if (performance.now() > turnEnds) {
      await nextIteration();
      if (signal?.aborted === true) throw signal.reason;
      turnEnds = performance.now() + SLICE_MS;
    }
    await work(entry);
  }
}
