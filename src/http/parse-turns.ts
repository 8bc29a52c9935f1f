// Large bodies are parsed, large stored conversations read and large answers made of them, one after the other, those of one organization
// in the order they came (but an answer before what is still to be read), organizations in turns. What is made of a body may go on for some
// slices before the next begins: no two are held as objects at once. What a shared database is asked for is on its way while the next
// begins: a slow one holds up nobody's bodies. After each slice the loop has as long for everybody else. Event-loop thread only.

import { performance } from 'node:perf_hooks';

/** A body of fewer bytes costs no more than waiting for a turn would. */
export const SMALL_BYTES = 131_072;

/** Work of one slice. Returns what goes on with it, if anything is left. */
export type Turn = () => Turn | undefined | void;

export class ParseTurns {
  readonly #lines = new Map<string, Turn[]>(); // whose turn it is first
  #rest: Turn | undefined; // of the body whose turn it is
  #busy = false;

  /** Calls `parse`, at once for a body of few bytes; else later, and nothing it throws is caught. */
  take(organizationId: string, bytes: number, parse: Turn): void {
    if (bytes < SMALL_BYTES) {
      for (let turn: Turn | undefined | void = parse; turn !== undefined; ) turn = turn();
      return;
    }
    this.#wait(organizationId, (line) => line.push(parse));
  }

  /** What came of a turn that has been had: before the organization's others, who would hold more until then. */
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
      this.#rest = undefined; // should it throw
      this.#rest = turn?.() ?? undefined;
    } finally {
      setImmediate(() => this.#goOn(began)); // behind what came of it at once, such as an answer being made: that counts too
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
      if (line.length > 0) this.#lines.set(organizationId, line); // behind the others
      return parse;
    }
    return undefined;
  }
}
