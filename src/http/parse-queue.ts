// Runs large work one task at a time: parsing large bodies, reading large stored conversations, and building large
// responses. Organizations take turns. Within an organization, tasks run in order of arrival, except that responses run
// before reads. A task may take several slices and finishes before the next task starts, so only one body at a time is
// in memory as objects. While a task waits for a shared database, the next task runs, so that a slow database does not
// delay other bodies. After each slice, other work gets the event loop for as long as the slice took. Event-loop thread
// only.

import { performance } from 'node:perf_hooks';

/** Bodies below this size are parsed immediately, because queueing them would cost more. */
export const SMALL_BYTES = 131_072;

/** Runs one slice of work. Returns the next slice if there is more to do. */
export type Task = () => Task | undefined | void;

export class ParseQueue {
  readonly #lines = new Map<string, Task[]>(); // the organization whose turn is next comes first
  #nextSlice: Task | undefined; // the current task's next slice
  #busy = false;

  /**
   * Runs `parse` immediately if there are fewer than SMALL_BYTES bytes, otherwise later. Errors thrown by `parse` are
   * not caught.
   */
  take(organizationId: string, bytes: number, parse: Task): void {
    if (bytes < SMALL_BYTES) {
      for (let turn: Task | undefined | void = parse; turn !== undefined; ) turn = turn();
      return;
    }
    this.#wait(organizationId, (line) => line.push(parse));
  }

  /**
   * Queues follow-up work of a finished task ahead of the organization's other tasks, because those would take more
   * memory while this task's result is still held.
   */
  resume(organizationId: string, work: Task): void {
    this.#wait(organizationId, (line) => line.unshift(work));
  }

  #wait(organizationId: string, join: (line: Task[]) => void): void {
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
      const turn = this.#nextSlice ?? this.#first();
      this.#nextSlice = undefined; // stays undefined if the slice throws
      this.#nextSlice = turn?.() ?? undefined;
    } finally {
      // Runs after the slice's immediate follow-up work, such as building a response, so that this time is counted too.
      setImmediate(() => this.#yieldThenNext(began));
    }
  }

  #yieldThenNext(began: number): void {
    const tookMs = performance.now() - began;
    if (this.#nextSlice === undefined && this.#lines.size === 0) this.#busy = false;
    else if (tookMs < 1) this.#next();
    else setTimeout(() => this.#next(), tookMs);
  }

  #first(): Task | undefined {
    for (const [organizationId, line] of this.#lines) {
      const parse = line.shift();
      this.#lines.delete(organizationId);
      if (line.length > 0) this.#lines.set(organizationId, line); // behind the other organizations
      return parse;
    }
    return undefined;
  }
}
