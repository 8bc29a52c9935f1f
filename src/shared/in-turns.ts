// Processes a long list in short slices, so that the event loop is not blocked.
import { performance } from 'node:perf_hooks';
import { setImmediate as nextIteration } from 'node:timers/promises';

/** Time in ms after which a slice ends. Other requests are processed between two slices. */
const SLICE_MS = 2;

/**
 * Calls `work` for each entry, and yields to other requests every few milliseconds. Throws the signal's reason if the
 * signal is aborted in the meantime.
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
