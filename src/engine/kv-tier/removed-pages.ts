// Remembers which pages were recently removed from the page store and why, for cache diagnostics. Worker thread only.

/** Maximum number of remembered pages, to limit memory. Each takes about 200 bytes. */
const MAX_PAGES = 20_000;

/**
 * damaged: the record was corrupt or unreadable. erased: the record was deleted with its stored response or by an
 * operator.
 */
export type RemovalReason = 'evicted' | 'erased' | 'expired' | 'damaged';

export interface Removal {
  readonly reason: RemovalReason;
  /** Time of the removal, in seconds since 1970. */
  readonly at: number;
}

export class RemovedPages {
  readonly #removals = new Map<string, Removal>();

  /** `max`: maximum number of remembered pages. */
  constructor(private readonly max = MAX_PAGES) {}

  add(name: string, reason: RemovalReason, at: number): void {
    this.#removals.delete(name); // moves the page to the end of the map, which is ordered by age
    this.#removals.set(name, { reason, at });
    if (this.#removals.size <= this.max) return;
    const [oldest] = this.#removals.keys();
    if (oldest !== undefined) this.#removals.delete(oldest);
  }
  get(name: string): Removal | undefined {
    return this.#removals.get(name);
  }
  /** Forgets a page because it is stored again. */
  delete(name: string): void {
    this.#removals.delete(name);
  }
}
