// Implements `monolith state import`, which imports a snapshot of the data directory's database. Nothing is written to
// the directory itself, so a server may keep using it. Changes made after the snapshot are not imported.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Config } from '../config/settings.js';
import { backUp } from '../storage/lmdb/database-copy.js';
import { openStore } from '../storage/lmdb/lmdb-store.js';
import { openPool } from '../storage/postgres/database.js';
import { migrate } from '../storage/postgres/migrations.js';
import { lmdbContentParts } from './lmdb-import-contents.js';
import { lastNumber, lmdbParts, storedResponses } from './lmdb-import-parts.js';
import { importParts } from './postgres-import-state.js';
import type { Imported } from './postgres-import-state.js';

export interface ImportOptions {
  readonly from: string;
  readonly database: Config['database'] & { readonly url: string };
  readonly report: (part: string, rows: number) => void;
  readonly signal: AbortSignal;
}

/**
 * Resolves to the imported and verified parts and the number of stored responses, which are not imported. Rejects with
 * StorageError.
 */
export async function importFolder({
  from,
  database: target,
  report,
  signal,
}: ImportOptions): Promise<{ parts: Imported[]; responses: number }> {
  const settings = { ...target, connections: 2 };
  await migrate(settings);
  const folder = mkdtempSync(join(tmpdir(), 'monolith-import-'));
  try {
    mkdirSync(join(folder, 'db'), { mode: 0o700 });
    await backUp(from, join(folder, 'db', 'data.mdb'), signal);
    const store = await openStore(folder);
    const database = openPool(settings);
    try {
      const number = lastNumber(store);
      const parts = await importParts(
        database,
        [...lmdbParts(store), ...lmdbContentParts(store)],
        async (sql) => {
          await sql.execute(
            'UPDATE accounts_state SET last_number = greatest(last_number, $1), version = version + 1',
            [number],
          );
          await sql.execute(
            'UPDATE request_log_size SET rows = (SELECT count(*) FROM requests), bytes = (SELECT coalesce(sum(bytes), 0) FROM requests)',
          );
        },
        report,
      );
      return { parts, responses: storedResponses(store) };
    } finally {
      await database.close();
      await store.close();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
