// Implements SavedStore on the `saved` table. Limits are checked in the transaction that adds the row.

import type { AccountWork } from '../accounts/work.js';
import { checkSaved } from '../../../dashboard/saved/saved-store.js';
import type { SavedChange, SavedKind, SavedRow, SavedStore } from '../../../dashboard/saved/saved-store.js';

interface Row {
  organization_id: string;
  id: string;
  user_id: string;
  kind: SavedKind;
  sealed_name: string;
  shared: boolean;
  created_at: number;
  expires_at: number | null;
}

const COLUMNS = 'organization_id, id, user_id, kind, sealed_name, shared, created_at, expires_at';
const ERASED_AT_ONCE = 100;

const savedOf = (row: Row): SavedRow => ({
  id: row.id,
  organizationId: row.organization_id,
  userId: row.user_id,
  kind: row.kind,
  sealedName: row.sealed_name,
  shared: row.shared,
  createdAt: row.created_at,
  expiresAt: row.expires_at,
});

export class PostgresSavedStore implements SavedStore {
  constructor(
    private readonly work: AccountWork,
    private readonly now: () => number = Date.now,
  ) {}

  add(row: SavedRow, sealedContent: string): Promise<void> {
    return this.work.change(async (sql) => {
      const [{ own = 0, all = 0 } = {}] = await sql.query<{ own: number; all: number }>(
        'SELECT count(*) FILTER (WHERE user_id = $2) AS own, count(*) AS "all" FROM saved WHERE organization_id = $1',
        [row.organizationId, row.userId],
      );
      checkSaved(own, all);
      await sql.query(`INSERT INTO saved (${COLUMNS}, sealed_content) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, [
        row.organizationId,
        row.id,
        row.userId,
        row.kind,
        row.sealedName,
        row.shared,
        row.createdAt,
        row.expiresAt,
        sealedContent,
      ]);
    });
  }

  async list(organizationId: string): Promise<SavedRow[]> {
    return (
      await this.work.sql.query<Row>(
        `SELECT ${COLUMNS} FROM saved WHERE organization_id = $1 AND (expires_at IS NULL OR expires_at > $2) ORDER BY created_at, id`,
        [organizationId, this.now()],
      )
    ).map(savedOf);
  }

  async get(organizationId: string, id: string): Promise<{ row: SavedRow; sealedContent: string } | null> {
    const [row] = await this.work.sql.query<Row & { sealed_content: string }>(
      `SELECT ${COLUMNS}, sealed_content FROM saved WHERE organization_id = $1 AND id = $2 AND (expires_at IS NULL OR expires_at > $3)`,
      [organizationId, id, this.now()],
    );
    return row === undefined ? null : { row: savedOf(row), sealedContent: row.sealed_content };
  }

  async change(
    organizationId: string,
    id: string,
    { sealedName, sealedContent, shared, expiresAt }: SavedChange,
  ): Promise<SavedRow | null> {
    const [row] = await this.work.sql.query<Row>(
      `UPDATE saved SET sealed_name = coalesce($4, sealed_name), sealed_content = coalesce($5, sealed_content), shared = coalesce($6, shared),
         expires_at = CASE WHEN $7 THEN $8::bigint ELSE expires_at END
       WHERE organization_id = $1 AND id = $2 AND (expires_at IS NULL OR expires_at > $3) RETURNING ${COLUMNS}`,
      [
        organizationId,
        id,
        this.now(),
        sealedName ?? null,
        sealedContent ?? null,
        shared ?? null,
        expiresAt !== undefined,
        expiresAt ?? null,
      ],
    );
    return row === undefined ? null : savedOf(row);
  }

  async remove(organizationId: string, id: string): Promise<void> {
    await this.work.sql.query('DELETE FROM saved WHERE organization_id = $1 AND id = $2', [organizationId, id]);
  }

  async eraseOrganization(organizationId: string): Promise<void> {
    while (
      (await this.work.sql.execute(
        'DELETE FROM saved WHERE organization_id = $1 AND id IN (SELECT id FROM saved WHERE organization_id = $1 LIMIT $2)',
        [organizationId, ERASED_AT_ONCE],
      )) > 0
    );
  }

  async eraseUser(userId: string): Promise<void> {
    await this.work.sql.query('DELETE FROM saved WHERE user_id = $1', [userId]);
  }

  async sweep(isUser: (userId: string) => Promise<boolean>): Promise<void> {
    await this.work.sql.query('DELETE FROM saved WHERE expires_at <= $1', [this.now()]);
    for (const { user_id: userId } of await this.work.sql.query<{ user_id: string }>(
      'SELECT DISTINCT user_id FROM saved',
    ))
      if (!(await isUser(userId))) await this.eraseUser(userId);
  }
}
