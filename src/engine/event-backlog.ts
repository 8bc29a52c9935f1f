// Events that take long to be told: a prompt's log-probabilities come thousands at once, and everybody on this thread would
// wait for them. Told in slices, requests in turns; after each slice the loop has as long for everybody else. Event-loop
// thread only.
import { performance } from 'node:perf_hooks';

/** Of the loop at once. */
const SLICE_MS = 5;

/** Tells a bit of what one request has waiting. False: that was all. It must not throw. */
export type TellSome = () => boolean;

export class EventBacklog {
  readonly #lines = new Set<TellSome>(); // whose turn it is first
  #busy = false;

  add(tell: TellSome): void {
    this.#lines.add(tell);
    if (this.#busy) return;
    this.#busy = true;
    setImmediate(() => this.#slice());
  }

  #slice(): void {
    const began = performance.now();
    for (const tell of this.#lines) {
      // also those that are put behind the others meanwhile
      this.#lines.delete(tell);
      if (tell()) this.#lines.add(tell);
      if (performance.now() - began >= SLICE_MS) break;
    }
    this.#busy = this.#lines.size > 0;
    if (this.#busy) setTimeout(() => this.#slice(), performance.now() - began);
  }
}
