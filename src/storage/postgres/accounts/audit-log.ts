// Implements AuditLog on the `audit_log` table. Entries are numbered within account transactions, so that all processes
// see the same order. The organization '' means the whole server.

import type { Queryable } from '../database.js';
import type { AuditEntry } from '../../../shared/wire/organizations.js';
import { AUDIT_KEPT_MS, auditCursor, auditEntry, matchesAudit, MAX_AUDIT_ENTRIES } from '../../../accounts/audit.js';
import type { Actor, AuditFilter, AuditLog, AuditNote, AuditPage } from '../../../accounts/audit.js';
import type { AccountWork } from './work.js';

const SWEPT_AT_ONCE = 1_000;
/** Number of entries read at a time while a list is filtered. An organization has at most MAX_AUDIT_ENTRIES. */
const SLICE = 200;

/** Must be called within the account transaction (work.ts) that the entry belongs to. */
export async function noteAudit(
  sql: Queryable,
  organizationId: string | null,
  { actor, action, target, detail = {} }: AuditNote & { readonly target: string | null },
  now = Date.now(),
): Promise<void> {
  const entry = auditEntry(now, actor, action, target, detail);
  await sql.query('INSERT INTO audit_log (id, organization_id, at, entry) VALUES ($1, $2, $3, $4)', [
    entry.id,
    organizationId ?? '',
    now,
    JSON.stringify(entry),
  ]);
}

/** Like noteAudit(), but for a change to a setting. Without a note, no entry is written. */
export async function noteSetting(
  sql: Queryable,
  organizationId: string | null,
  note: AuditNote | null,
  target: string | null,
): Promise<void> {
  if (note !== null) await noteAudit(sql, organizationId, { ...note, target });
}

interface AuditRow {
  readonly seq: number;
  readonly entry: AuditEntry;
}
const entriesOf = (rows: readonly AuditRow[]): AuditEntry[] => rows.map(({ entry }) => entry);
const cursorOf = (rows: readonly AuditRow[]): string | null => {
  const last = rows.at(-1);
  return last === undefined ? null : `${last.seq}.${last.entry.id}`;
};

export class PostgresAuditLog implements AuditLog {
  constructor(
    private readonly work: AccountWork,
    private readonly now: () => number = Date.now,
  ) {}

  note(
    organizationId: string | null,
    actor: Actor,
    action: string,
    target: string | null,
    detail: Record<string, unknown> = {},
  ): Promise<void> {
    return this.work.change((sql) => noteAudit(sql, organizationId, { actor, action, target, detail }, this.now()));
  }

  async list(
    organizationId: string | null,
    limit: number,
    after: string | null,
    filter: AuditFilter = {},
  ): Promise<AuditPage> {
    let before = after === null ? Number.MAX_SAFE_INTEGER : auditCursor(after)[0];
    const page: AuditRow[] = [];
    for (;;) {
      const rows = await this.work.sql.query<AuditRow>(
        `SELECT seq, entry FROM audit_log WHERE organization_id = $1 AND seq < $2
           AND at >= $3 AND at < $4 ORDER BY seq DESC LIMIT $5`,
        [organizationId ?? '', before, filter.from ?? 0, filter.to ?? Number.MAX_SAFE_INTEGER, SLICE],
      );
      for (const row of rows) {
        if (!matchesAudit(row.entry, filter)) continue;
        if (page.length === limit) return { data: entriesOf(page), next: cursorOf(page) };
        page.push(row);
      }
      const last = rows.at(-1);
      if (rows.length < SLICE || last === undefined) return { data: entriesOf(page), next: null };
      before = last.seq;
    }
  }

  /** Erases entries that are too old or exceed the maximum number, a few per statement. */
  async sweep(): Promise<void> {
    const { database } = this.work;
    const before = this.now() - AUDIT_KEPT_MS;
    while (
      (await database.execute('DELETE FROM audit_log WHERE seq IN (SELECT seq FROM audit_log WHERE at < $1 LIMIT $2)', [
        before,
        SWEPT_AT_ONCE,
      ])) === SWEPT_AT_ONCE
    );
    const many = await database.query<{ organization_id: string }>(
      'SELECT organization_id FROM audit_log GROUP BY organization_id HAVING count(*) > $1',
      [MAX_AUDIT_ENTRIES],
    );
    for (const { organization_id: of } of many) {
      await database.execute(
        'DELETE FROM audit_log WHERE organization_id = $1 AND seq <= (SELECT seq FROM audit_log WHERE organization_id = $1 ORDER BY seq DESC OFFSET $2 LIMIT 1)',
        [of, MAX_AUDIT_ENTRIES],
      );
    }
  }
}
