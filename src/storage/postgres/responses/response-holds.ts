// Tracks the responses that this process holds, that is, protects from erasure. Counted in memory, with one database
// row per held response. A row is valid for as long as its process's lease. Event-loop thread only.

import type { Database } from '../database.js';

const RELEASE = `WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS set)
  DELETE FROM response_holds WHERE response_id = $1 AND process = $2 AND (SELECT set FROM quick) IS NOT NULL`;

export class ResponseHolds {
  readonly #counts = new Map<string, number>();
  readonly #releasing = new Map<string, Promise<void>>();

  /** `released` is called when this process no longer holds the response `id`. */
  constructor(
    private readonly database: Database,
    private readonly process: string,
    private readonly released: (id: string) => Promise<void>,
  ) {}

  /** Counts a new hold. Resolves when its row may be written without being removed by a release that is in progress. */
  async begin(id: string): Promise<() => void> {
    this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
    await this.#releasing.get(id);
    let holding = true;
    return () => {
      if (!holding) return;
      holding = false;
      const left = (this.#counts.get(id) ?? 1) - 1;
      if (left > 0) this.#counts.set(id, left);
      else this.#release(id);
    };
  }

  /** Resolves when all releases have completed. */
  async settled(): Promise<void> {
    while (this.#releasing.size > 0) await Promise.all(this.#releasing.values());
  }

  #release(id: string): void {
    this.#counts.delete(id);
    // A failure is harmless: the row stays valid until this process ends, and the next sweep erases the response.
    const done = this.database
      .execute(RELEASE, [id, this.process])
      .then(() => (this.#counts.has(id) ? undefined : this.released(id)))
      .catch(() => undefined)
      .finally(() => this.#releasing.delete(id));
    this.#releasing.set(id, done);
  }
}
