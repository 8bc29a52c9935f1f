// Implements Attempts on the `attempts` table, with one row per kind and subject, which is erased when its period ends.
// A transaction that locks several rows locks them in key order.

import type { Queryable } from '../database.js';
import { ATTEMPTS_MS, capped, subjectHash, isTooLong, MAX_ATTEMPTS, tooMany } from '../../../accounts/attempts.js';
import type { AttemptKind, Attempts, Counted } from '../../../accounts/attempts.js';

interface Row {
  whose: string;
  count: number;
  until: number;
}

export class PostgresAttempts implements Attempts {
  constructor(
    private readonly database: {
      query: Queryable['query'];
      transaction<T>(work: (sql: Queryable) => Promise<T>): Promise<T>;
    },
    private readonly now: () => number = Date.now,
  ) {}

  async count(kind: AttemptKind, whose: readonly string[]): Promise<void> {
    const keys = whose.map(subjectHash).sort();
    const now = this.now();
    const most = MAX_ATTEMPTS[kind];
    // Reads before writing, so that a client that keeps trying after being rejected costs almost nothing.
    const found = await this.database.query<Row>(
      'SELECT whose, count, until FROM attempts WHERE kind = $1 AND whose = ANY($2) AND until > $3',
      [kind, keys, now],
    );
    if (found.some((row) => isTooLong(row, now))) await this.#cap(kind, keys, now);
    const early = found.map((row) => ({ ...row, ...capped(row, now) }));
    refuse(
      early.filter(({ count }) => count >= most),
      now,
    );
    await this.database.transaction(async (sql) => {
      const rows = await sql.query<Row>(
        `INSERT INTO attempts (kind, whose, count, until) SELECT $1::text, whose, 1, $4::bigint FROM unnest($2::text[]) AS asked (whose) ORDER BY whose
         ON CONFLICT (kind, whose) DO UPDATE SET
           count = CASE WHEN attempts.until > $3::bigint AND attempts.count > 0 THEN attempts.count + 1 ELSE 1 END,
           until = CASE WHEN attempts.until > $3::bigint AND attempts.count > 0 THEN attempts.until ELSE excluded.until END
         RETURNING whose, count, until`,
        [kind, keys, now, now + ATTEMPTS_MS],
      );
      refuse(
        rows.filter(({ count }) => count > most),
        now,
      ); // rolls the transaction back
    });
  }

  async counted(kind: AttemptKind, whose: string): Promise<Counted> {
    const now = this.now();
    const [row] = await this.database.query<Counted>(
      'SELECT count, until FROM attempts WHERE kind = $1 AND whose = $2 AND until > $3',
      [kind, subjectHash(whose), now],
    );
    if (row === undefined) return { count: 0, until: now + ATTEMPTS_MS };
    if (isTooLong(row, now)) await this.#cap(kind, [subjectHash(whose)], now);
    return capped(row, now);
  }

  async #cap(kind: AttemptKind, keys: readonly string[], now: number): Promise<void> {
    await this.database.query('UPDATE attempts SET until = $3 WHERE kind = $1 AND whose = ANY($2) AND until > $3', [
      kind,
      keys,
      now + ATTEMPTS_MS,
    ]);
  }

  async sweep(): Promise<void> {
    await this.database.query('DELETE FROM attempts WHERE until <= $1', [this.now()]);
  }
}

function refuse(over: readonly Row[], now: number): void {
  if (over.length > 0) throw tooMany(Math.max(...over.map(({ until }) => until - now)));
}

/** Must be called within a transaction. Cancels one counted attempt for each subject. */
export async function resetAttempts(sql: Queryable, kind: AttemptKind, whose: readonly string[]): Promise<void> {
  const keys = whose.map(subjectHash);
  await sql.query('SELECT 1 FROM attempts WHERE kind = $1 AND whose = ANY($2) ORDER BY whose FOR UPDATE', [kind, keys]);
  await sql.query('UPDATE attempts SET count = count - 1 WHERE kind = $1 AND whose = ANY($2) AND count > 0', [
    kind,
    keys,
  ]);
}

/** Must be called within a transaction. Resets the counts. */
export async function clearAttempts(sql: Queryable, kind: AttemptKind, whose: string): Promise<void> {
  await sql.query('DELETE FROM attempts WHERE kind = $1 AND whose = $2', [kind, subjectHash(whose)]);
}
