// Large bodies are parsed one per turn of the event loop, those of one organization in the order they came,
// organizations in turns; after each the loop has as long for everybody else. Event-loop thread only.

import { performance } from 'node:perf_hooks';

/** A body of fewer bytes costs no more than waiting for a turn would. */
const SMALL_BYTES = 131_072;

export class ParseTurns {
  readonly #lines = new Map<string, (() => void)[]>();   // whose turn it is first
  #busy = false;

  /** Calls `parse`, at once for a body of few bytes; else later, and nothing it throws is caught. */
  take(organizationId: string, bytes: number, parse: () => void): void {
    if (bytes < SMALL_BYTES) {
      parse();
      return;
    }
    const line = this.#lines.get(organizationId);
    if (line === undefined) this.#lines.set(organizationId, [parse]);
    else line.push(parse);
    if (this.#busy) return;
    this.#busy = true;
    setImmediate(() => this.#next());
  }

  #next(): void {
    const began = performance.now();
    try {
      this.#first()?.();
    } finally {
      const tookMs = performance.now() - began;
      if (this.#lines.size === 0) this.#busy = false;
      else if (tookMs < 1) setImmediate(() => this.#next());
      else setTimeout(() => this.#next(), tookMs);
    }
  }

  #first(): (() => void) | undefined {
    for (const [organizationId, line] of this.#lines) {
      const parse = line.shift();
      this.#lines.delete(organizationId);
      if (line.length > 0) this.#lines.set(organizationId, line);   // behind the others
      return parse;
    }
    return undefined;
  }
}
