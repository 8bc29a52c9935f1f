// Remembers which pages have left the page store recently and why, for cache diagnostics. Worker thread only.

/** Limits the memory; about 200 bytes each. */
const MAX_PAGES = 20_000;

/** damaged: the record was corrupt or could not be read. erased: deleted with its response, or by an operator. */
export type RemovalReason = 'evicted' | 'erased' | 'expired' | 'damaged';

export interface Removal {
  readonly reason: RemovalReason;
  /** Time in seconds. */
  readonly at: number;
}

export class RemovedPages {
  readonly #removals = new Map<string, Removal>();

  /** `max`: number of pages to remember. */
  constructor(private readonly max = MAX_PAGES) {}

  add(name: string, reason: RemovalReason, at: number): void {
    this.#removals.delete(name); // the oldest entry is the first of the map
    this.#removals.set(name, { reason, at });
    if (this.#removals.size <= this.max) return;
    const [oldest] = this.#removals.keys();
    if (oldest !== undefined) this.#removals.delete(oldest);
  }
  get(name: string): Removal | undefined {
    return this.#removals.get(name);
  }
  /** A page that is stored again. */
  delete(name: string): void {
    this.#removals.delete(name);
  }
}
