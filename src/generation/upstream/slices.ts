// Reading the upstream responses of this thread takes a few milliseconds between two turns of the event loop, and so does emitting
// large ones: the rest waits, so that other requests do not. Event-loop thread only.
import { performance } from 'node:perf_hooks';

/** Work between two turns of the event loop. */
const SLICE_MS = 3;

/** Does about a millisecond of work; false: there is no more. Throws nothing. */
export type Step = () => boolean;

const waiting: Step[] = [];
let spentMs = 0; // since the last turn of the loop, outside run()

/** Whether there is time left to read what arrives. */
export function mayReadNow(): boolean {
  return spentMs < SLICE_MS;
}

/** Does work that is done now, and counts its time. */
export function measured(work: () => void): void {
  const from = performance.now();
  try {
    work();
  } finally {
    if (spentMs === 0) setImmediate(reset);
    spentMs += performance.now() - from;
  }
}

function reset(): void {
  spentMs = 0;
}

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
