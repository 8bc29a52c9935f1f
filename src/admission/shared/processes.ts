// The processes that share their limits, as they were last seen, and this one's part of a limit when nobody can be asked:
// what all of them take together is the limit, neither more nor less. Event-loop thread only.

import type { Limits } from '../limits.js';

export class Processes {
  #all: readonly string[];

  constructor(private readonly own: string) {
    this.#all = [own];
  }

  /** This one is always among them. */
  see(all: readonly string[]): void {
    this.#all = all.includes(this.own) ? [...all].sort() : [...all, this.own].sort();
  }

  get count(): number {
    return this.#all.length;
  }

  /** Whole: where a limit cannot be divided, the first processes have one more. */
  part(limit: number): number {
    const { count } = this;
    return Math.floor(limit / count) + (this.#all.indexOf(this.own) < limit % count ? 1 : 0);
  }

  partOf({ rpm, tpm, concurrency }: Limits): Limits {
    const part = (limit: number | null): number | null => (limit === null ? null : this.part(limit));
    return { rpm: part(rpm), tpm: part(tpm), concurrency: part(concurrency) };
  }
}
