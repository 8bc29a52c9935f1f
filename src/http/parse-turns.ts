// Runs large work one task at a time: parsing large bodies, reading large stored conversations, and building large
// responses. Organizations take turns. Within an organization tasks run in order of arrival, but responses run before
// reads. A task may continue for several slices before the next task starts, so only one body at a time is held as
// objects. A shared database is queried while the next task runs, so a slow database does not delay other bodies. After
// each slice, the event loop is left to other work for as long as the slice took. Event-loop thread only.

import { performance } from 'node:perf_hooks';

/** Smaller bodies run immediately: waiting for a turn would cost more. */
export const SMALL_BYTES = 131_072;

/** Work of one slice. Returns the next slice, if any work is left. */
export type Turn = () => Turn | undefined | void;

export class ParseTurns {
  readonly #lines = new Map<string, Turn[]>(); // the organization whose turn it is comes first
  #rest: Turn | undefined; // next slice of the current task
  #busy = false;

  /**
   * Calls `parse`: immediately for fewer than SMALL_BYTES bytes, otherwise later. Errors that it throws are not caught.
   */
  take(organizationId: string, bytes: number, parse: Turn): void {
    if (bytes < SMALL_BYTES) {
      for (let turn: Turn | undefined | void = parse; turn !== undefined; ) turn = turn();
      return;
    }
    this.#wait(organizationId, (line) => line.push(parse));
  }

  /**
   * Queues work that follows from a finished task, ahead of the organization's other tasks: they would add memory while
   * this result is still held.
   */
  goOn(organizationId: string, work: Turn): void {
    this.#wait(organizationId, (line) => line.unshift(work));
  }

  #wait(organizationId: string, join: (line: Turn[]) => void): void {
    const line = this.#lines.get(organizationId) ?? [];
    join(line);
    this.#lines.set(organizationId, line);
    if (this.#busy) return;
    this.#busy = true;
    setImmediate(() => this.#next());
  }

  #next(): void {
    const began = performance.now();
    try {
      const turn = this.#rest ?? this.#first();
      this.#rest = undefined; // stays undefined if the slice throws
      this.#rest = turn?.() ?? undefined;
    } finally {
      // after the slice's immediate follow-up work, such as building a response, which counts too
      setImmediate(() => this.#goOn(began));
    }
  }

  #goOn(began: number): void {
    const tookMs = performance.now() - began;
    if (this.#rest === undefined && this.#lines.size === 0) this.#busy = false;
    else if (tookMs < 1) this.#next();
    else setTimeout(() => this.#next(), tookMs);
  }

  #first(): Turn | undefined {
    for (const [organizationId, line] of this.#lines) {
      const parse = line.shift();
      this.#lines.delete(organizationId);
      if (line.length > 0) this.#lines.set(organizationId, line); // after the others
      return parse;
    }
    return undefined;
  }
}
