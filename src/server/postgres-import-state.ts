// Imports the content of a data directory into the shared database, part by part and in batches. Each batch stores its
// progress in the same transaction, so an interrupted import can resume. At the end, every part is read back and
// checked by row count and hash.

import { createHash } from 'node:crypto';
import type { Database, Queryable } from '../storage/postgres/database.js';
import { StorageError } from '../storage/store.js';
import type { Part } from './postgres-import-parts.js';

const ROWS = 500;
/** A batch ends with the row that brings it to this many characters. */
const CHARACTERS = 8_388_608;
const READ_ROWS = 5_000;

export interface Imported {
  readonly part: string;
  readonly rows: number;
  readonly hash: string;
}

/**
 * `report` is called after each batch. Rejects with StorageError if the database already contains other data, or if the
 * imported content differs from the source.
 */
export async function importParts(
  database: Database,
  parts: readonly Part[],
  finish: (sql: Queryable) => Promise<void>,
  report: (part: string, rows: number) => void,
): Promise<Imported[]> {
  const [{ started = false } = {}] = await database.query<{ started: boolean }>(
    'SELECT count(*) > 0 AS started FROM imports',
  );
  const [{ used = false } = {}] = await database.query<{ used: boolean }>(
    'SELECT EXISTS (SELECT 1 FROM organizations) OR EXISTS (SELECT 1 FROM users) OR EXISTS (SELECT 1 FROM usage_hours) AS used',
  );
  if (used && !started)
    throw new StorageError(`The database ${database.address} already contains accounts; use an empty one.`);
  for (const part of parts) await bringOver(database, part, report);
  await database.transaction(finish);
  const done: Imported[] = [];
  for (const part of parts) {
    const [source, target] = [hashOf(part.rows()), await hashOfTable(database, part)];
    if (source.rows !== target.rows || source.hash !== target.hash) {
      throw new StorageError(
        `"${part.name}" differs: ${source.rows} rows in the folder, ${target.rows} in the database${source.rows === target.rows ? ', with different content' : ''}. One of them may have changed during the import. Start again with an empty database.`,
      );
    }
    done.push({ part: part.name, ...source });
  }
  return done;
}

async function bringOver(database: Database, part: Part, report: (part: string, rows: number) => void): Promise<void> {
  const [{ rows: there = 0 } = {}] = await database.query<{ rows: number }>(
    'SELECT rows FROM imports WHERE part = $1',
    [part.name],
  );
  const names = part.columns.map(({ name }) => name).join(', ');
  const insert = `INSERT INTO ${part.table} (${names})
    SELECT ${part.columns.map(({ name, type, write }) => write ?? `given.${name}::${type}`).join(', ')}
    FROM unnest(${part.columns.map((_, at) => `$${at + 1}::text[]`).join(', ')}) AS given (${names})`;
  let done = there;
  const write = async (batch: readonly (readonly (string | null)[])[]): Promise<void> => {
    await database.transaction(async (sql) => {
      await sql.execute(
        insert,
        part.columns.map((_, at) => batch.map((row) => row[at] ?? null)),
      );
      await sql.execute(
        'INSERT INTO imports (part, rows) VALUES ($1, $2) ON CONFLICT (part) DO UPDATE SET rows = excluded.rows',
        [part.name, done + batch.length],
      );
    });
    done += batch.length;
    report(part.name, done);
  };
  let skipped = 0;
  let batch: (readonly (string | null)[])[] = [];
  let characters = 0;
  for (const row of part.rows()) {
    if (skipped++ < there) continue;
    batch.push(row);
    for (const value of row) characters += value?.length ?? 0;
    if (batch.length < ROWS && characters < CHARACTERS) continue;
    await write(batch);
    batch = [];
    characters = 0;
  }
  if (batch.length > 0 || there === 0) await write(batch);
}

/** Order-independent hash of a set of rows: the sum of the row hashes. */
class RowsHash {
  rows = 0;
  readonly #sum = Buffer.alloc(32);

  add(part: readonly (string | null)[]): void {
    const one = createHash('sha256').update(JSON.stringify(part)).digest();
    let carry = 0;
    for (let at = 31; at >= 0; at--) {
      carry += (this.#sum[at] as number) + (one[at] as number);
      this.#sum[at] = carry & 255;
      carry >>= 8;
    }
    this.rows++;
  }

  get hash(): string {
    return this.#sum.toString('hex');
  }
}

function hashOf(rows: Iterable<readonly (string | null)[]>): { rows: number; hash: string } {
  const sum = new RowsHash();
  // PostgreSQL text cannot contain NUL.
  for (const row of rows) sum.add(row.map((value) => value?.replaceAll('\0', '\ufffd') ?? null));
  return { rows: sum.rows, hash: sum.hash };
}

async function hashOfTable(database: Database, part: Part): Promise<{ rows: number; hash: string }> {
  const values = part.columns.map(({ name, read }) => read ?? `${name}::text`).join(', ');
  const readRows = part.readRows ?? READ_ROWS;
  // A cursor within one transaction reads from a consistent snapshot.
  return await database.transaction(async (sql) => {
    const sum = new RowsHash();
    await sql.execute(
      `DECLARE imported NO SCROLL CURSOR FOR SELECT json_build_array(${values}) AS row FROM ${part.table} WHERE ${part.where ?? 'true'}`,
    );
    for (;;) {
      const rows = await sql.query<{ row: (string | null)[] }>(`FETCH ${readRows} FROM imported`);
      for (const { row } of rows) sum.add(row);
      if (rows.length < readRows) break;
    }
    await sql.execute('CLOSE imported');
    return { rows: sum.rows, hash: sum.hash };
  });
}
