// Delivers events that take long to process, such as thousands of prompt log probabilities, without blocking this
// thread's other requests. Events are delivered in slices, with requests taking turns. After each slice, other work
// gets the event loop for as long as the slice took. Event-loop thread only.
import { performance } from 'node:perf_hooks';

/** Maximum time per slice, in ms. */
const SLICE_MS = 5;

/** Delivers part of one request's events. Returns false after the last part. Must not throw. */
export type EmitSome = () => boolean;

export class EventBacklog {
  readonly #lines = new Set<EmitSome>(); // the request whose turn is next comes first
  #busy = false;

  add(emit: EmitSome): void {
    this.#lines.add(emit);
    if (this.#busy) return;
    this.#busy = true;
    setImmediate(() => this.#slice());
  }

  #slice(): void {
    const began = performance.now();
    for (const emit of this.#lines) {
      // The loop also visits requests that are moved to the end of the set while it runs.
      this.#lines.delete(emit);
      if (emit()) this.#lines.add(emit);
      if (performance.now() - began >= SLICE_MS) break;
    }
    this.#busy = this.#lines.size > 0;
    if (this.#busy) setTimeout(() => this.#slice(), performance.now() - began);
  }
}
