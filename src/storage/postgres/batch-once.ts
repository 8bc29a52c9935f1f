// Writes each batch exactly once, even if the connection is lost before the commit is confirmed. This matters because
// batches add to sums. Each batch has an ID that is committed together with it in `written_batches`. If a batch's
// outcome is unknown, its ID is claimed before the next batch is written. If the ID already exists, the batch was
// committed and its entries are skipped; otherwise, claiming the ID prevents a late commit. Event-loop thread only; one
// batch at a time (BatchWriter).

import { randomUUID } from 'node:crypto';
import { ApiError } from '../../shared/errors.js';
import type { Database, Queryable } from './database.js';

/** How long batch IDs are kept. A retry happens within minutes. */
const KEPT_MS = 24 * 3_600_000;

export class BatchOnce<T> {
  #unknown: { id: string; entries: ReadonlySet<T> }[] = [];

  constructor(
    private readonly database: Database,
    private readonly now: () => number = Date.now,
  ) {}

  /** `work` receives the entries that are not stored yet. It runs within one transaction, which may be repeated. */
  async write(entries: readonly T[], work: (sql: Queryable, entries: readonly T[]) => Promise<void>): Promise<void> {
    const id = randomUUID();
    try {
      await this.database.transaction(async (sql) => {
        const written = new Set<T>();
        for (const earlier of this.#unknown) {
          if (
            (await sql.execute('INSERT INTO written_batches (id, at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING', [
              earlier.id,
              this.now(),
            ])) === 0
          ) {
            for (const entry of earlier.entries) written.add(entry);
          }
        }
        await sql.execute('INSERT INTO written_batches (id, at) VALUES ($1, $2)', [id, this.now()]);
        await work(
          sql,
          entries.filter((entry) => !written.has(entry)),
        );
      });
      this.#unknown = [];
    } catch (error) {
      if (error instanceof ApiError) this.#unknown.push({ id, entries: new Set(entries) });
      throw error;
    }
  }

  async sweep(): Promise<void> {
    await this.database.execute('DELETE FROM written_batches WHERE at < $1', [this.now() - KEPT_MS]);
  }
}
