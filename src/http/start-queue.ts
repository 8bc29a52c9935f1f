// Staggers the start of requests so that one organization's burst does not block the event loop. libuv delivers all
// data that has arrived in one batch, which often contains hundreds of requests. Starting one request (parsing,
// rendering the template, tokenizing, submitting) takes a few tenths of a millisecond. In each iteration of the event
// loop, an organization's first request starts immediately. Its other requests wait and start in slices, with
// organizations taking turns. Between two slices, the event loop does other work. Event-loop thread only.

/** Milliseconds per slice. A slice takes longer if the start of a single request does. */
const SLICE_MS = 3;

export class StartQueue {
  readonly #lines = new Map<string, (() => void)[]>(); // the organization whose turn is next comes first
  readonly #started = new Set<string>(); // organizations that started a request in this iteration of the event loop
  #scheduled = false;

  /**
   * Calls `start` now or in one of the next iterations, in order of arrival within the organization. If the request has
   * to wait, `willWait` is called first.
   */
  add(organizationId: string, start: () => void, willWait?: () => void): void {
    const line = this.#lines.get(organizationId);
    const waits = line !== undefined || this.#started.has(organizationId);
    if (line !== undefined) line.push(start);
    else if (waits) this.#lines.set(organizationId, [start]);
    if (!this.#scheduled) {
      this.#scheduled = true;
      setImmediate(() => this.#slice());
    }
    if (waits) return willWait?.();
    this.#started.add(organizationId);
    start();
  }

  #slice(): void {
    this.#started.clear();
    this.#scheduled = this.#lines.size > 0;
    if (this.#scheduled) this.#next(performance.now() + SLICE_MS);
  }

  #next(until: number): void {
    if (performance.now() > until) {
      setImmediate(() => this.#slice());
      return;
    }
    const start = this.#first();
    if (start === undefined) {
      this.#scheduled = false;
      return;
    }
    // A tick scheduled from a microtask runs after all microtasks, and thus after all of the request's work that does
    // not wait for I/O.
    queueMicrotask(() => process.nextTick(() => this.#next(until)));
    start();
  }

  #first(): (() => void) | undefined {
    for (const [organizationId, line] of this.#lines) {
      const start = line.shift();
      this.#lines.delete(organizationId);
      if (line.length > 0) this.#lines.set(organizationId, line); // behind the other organizations
      return start;
    }
    return undefined;
  }
}
