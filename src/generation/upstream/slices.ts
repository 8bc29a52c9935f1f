// Limits how much time this thread spends reading upstream responses and emitting large ones between two event-loop
// turns. Remaining work is deferred, so that other requests are not delayed. Event-loop thread only.
import { performance } from 'node:perf_hooks';

/** Milliseconds of work between two event-loop turns. */
const SLICE_MS = 3;

/** Does about a millisecond of work. Returns false when it is done. Must not throw. */
export type Step = () => boolean;

const waiting: Step[] = [];
let spentMs = 0; // since the last event-loop turn, outside run()

/** Whether there is time left in this turn to read data. */
export function mayReadNow(): boolean {
  return spentMs < SLICE_MS;
}

/** Runs `work` immediately and counts its time toward the limit. */
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

/** Calls `step` until it returns false, taking turns with all other steps. */
export function inSlices(step: Step): void {
  if (waiting.push(step) === 1) setImmediate(run);
}

function run(): void {
  const end = performance.now() + SLICE_MS;
  do {
    const step = waiting[0] as Step;
    // The step stays in the list while it runs, so that inSlices() does not schedule a second run.
    const goesOn = step();
    waiting.shift();
    if (goesOn) waiting.push(step);
  } while (waiting.length > 0 && performance.now() < end);
  if (waiting.length > 0) setImmediate(run);
}
