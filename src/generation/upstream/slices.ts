// Long work of all upstream responses of this thread, done in slices, so that other requests wait for a few milliseconds at most.
// Event-loop thread only.
import { performance } from 'node:perf_hooks';

/** Work between two turns of the event loop. */
const SLICE_MS = 4;

/** Does about a millisecond of work; false: there is no more. Throws nothing. */
export type Step = () => boolean;

const waiting: Step[] = [];

/** Calls `step`, in turn with all others, until it returns false. */
export function inSlices(step: Step): void {
  if (waiting.push(step) === 1) setImmediate(run);
}

function run(): void {
  const end = performance.now() + SLICE_MS;
  do {
    const step = waiting[0] as Step;
    // Stays in the list meanwhile, so that inSlices() does not schedule a second run.
    const goesOn = step();
    waiting.shift();
    if (goesOn) waiting.push(step);
  } while (waiting.length > 0 && performance.now() < end);
  if (waiting.length > 0) setImmediate(run);
}
