// The processes that share the limits, as last seen, and this process's share of a limit while Redis is unreachable.
// The shares add up exactly to the limit. Event-loop thread only.

import type { Limits } from '../limits.js';

export class Processes {
  #all: readonly string[];

  constructor(private readonly own: string) {
    this.#all = [own];
  }

  /** This process is always included. */
  see(all: readonly string[]): void {
    this.#all = all.includes(this.own) ? [...all].sort() : [...all, this.own].sort();
  }

  get count(): number {
    return this.#all.length;
  }

  /** Returns an integer. If the limit is not evenly divisible, the first few processes get one more. */
  part(limit: number): number {
    const { count } = this;
    return Math.floor(limit / count) + (this.#all.indexOf(this.own) < limit % count ? 1 : 0);
  }

  partOf({ rpm, tpm, concurrency }: Limits): Limits {
    const part = (limit: number | null): number | null => (limit === null ? null : this.part(limit));
    return { rpm: part(rpm), tpm: part(tpm), concurrency: part(concurrency) };
  }
}
