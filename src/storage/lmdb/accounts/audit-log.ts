// Implements AuditLog on the `audit` table, keyed [organization, milliseconds, id]. The organization '' means the whole
// server.

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Key, Store, Table } from '../../store.js';
import type { AuditEntry } from '../../../shared/wire/organizations.js';
import { AUDIT_KEPT_MS, auditCursor, auditEntry, matchesAudit, MAX_AUDIT_ENTRIES } from '../../../accounts/audit.js';
import type { Actor, AuditFilter, AuditLog, AuditPage } from '../../../accounts/audit.js';

const SWEEP_ROWS = 1_000;
/** Number of entries read at a time while a list is filtered. */
const SLICE = 200;

export class LmdbAuditLog implements AuditLog {
  private readonly entries: Table<AuditEntry>;

  constructor(
    private readonly store: Store,
    private readonly now: () => number = Date.now,
  ) {
    this.entries = store.table('audit');
  }

  /** If called within a transaction, the entry becomes part of it and need not be awaited. */
  note(
    organizationId: string | null,
    actor: Actor,
    action: string,
    target: string | null,
    detail: Record<string, unknown> = {},
  ): Promise<void> {
    const now = this.now();
    const entry = auditEntry(now, actor, action, target, detail);
    return this.entries.put([organizationId ?? '', now, entry.id], entry);
  }

  async list(
    organizationId: string | null,
    limit: number,
    after: string | null,
    filter: AuditFilter = {},
  ): Promise<AuditPage> {
    const of = organizationId ?? '';
    const [at, id] = after === null ? [Number.MAX_SAFE_INTEGER, ''] : auditCursor(after);
    const start: [string, number, string] = filter.to != null && filter.to <= at ? [of, filter.to, ''] : [of, at, id];
    const data: AuditEntry[] = [];
    let last = start; // the last entry on the page
    for (let from: Key | undefined = start; from !== undefined; ) {
      const slice: { key: Key; value: AuditEntry }[] = [
        ...this.entries.range({ from, to: [of], reverse: true, limit: SLICE + 1 }),
      ];
      for (const { key, value } of slice.slice(0, SLICE)) {
        const place = key as [string, number, string];
        if (filter.from != null && place[1] < filter.from) return { data, next: null };
        if (value.id === id || !matchesAudit(value, filter)) continue;
        if (data.length === limit) return { data, next: last.slice(1).join('.') };
        data.push(value);
        last = place;
      }
      from = slice[SLICE]?.key;
      await nextTurn();
    }
    return { data, next: null };
  }

  /** Erases entries that are too old or exceed the maximum number, in short transactions. */
  async sweep(): Promise<void> {
    const before = this.now() - AUDIT_KEPT_MS;
    for (let organization: string | null = ''; organization !== null; ) {
      const of: string = organization;
      let seen = 0;
      for (let from: Key | undefined = [of, Number.MAX_SAFE_INTEGER]; from !== undefined; ) {
        const keys: Key[] = [...this.entries.keys({ from, to: [of], reverse: true, limit: SWEEP_ROWS + 1 })];
        from = keys[SWEEP_ROWS];
        const dead = keys
          .slice(0, SWEEP_ROWS)
          .filter((key) => ++seen > MAX_AUDIT_ENTRIES || (key as [string, number, string])[1] < before);
        if (dead.length === 0) await nextTurn();
        else
          await this.store.transaction(() => {
            for (const key of dead) void this.entries.remove(key);
          });
      }
      const [next] = this.entries.keys({ from: [of, Number.MAX_SAFE_INTEGER], limit: 1 });
      organization = next === undefined ? null : (next as [string, number, string])[0];
    }
  }
}
