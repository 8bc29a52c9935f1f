// AuditLog in the `audit_log` table. Entries are numbered within account transactions, so that all processes see the
// same order. The organization '' means the whole server.

import type { Queryable } from '../database.js';
import type { AuditEntry } from '../../../shared/wire/organizations.js';
import { AUDIT_KEPT_MS, auditCursor, auditEntry, MAX_AUDIT_ENTRIES } from '../../../accounts/audit.js';
import type { Actor, AuditLog, AuditNote, AuditPage } from '../../../accounts/audit.js';
import type { AccountWork } from './work.js';

const SWEPT_AT_ONCE = 1_000;

/** Call within the account transaction (work.ts) of which the entry is to be part. */
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

/** Like noteAudit(), but for a setting; null: no entry. */
export async function noteSetting(
  sql: Queryable,
  organizationId: string | null,
  note: AuditNote | null,
  target: string | null,
): Promise<void> {
  if (note !== null) await noteAudit(sql, organizationId, { ...note, target });
}

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

  async list(organizationId: string | null, limit: number, after: string | null): Promise<AuditPage> {
    const before = after === null ? Number.MAX_SAFE_INTEGER : auditCursor(after)[0];
    const rows = await this.work.sql.query<{ seq: number; entry: AuditEntry }>(
      'SELECT seq, entry FROM audit_log WHERE organization_id = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3',
      [organizationId ?? '', before, limit + 1],
    );
    const page = rows.slice(0, limit);
    const last = page.at(-1);
    return {
      data: page.map(({ entry }) => entry),
      next: rows.length > limit && last !== undefined ? `${last.seq}.${last.entry.id}` : null,
    };
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
