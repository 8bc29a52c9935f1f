// Service account rows. Functions that write must be called within a transaction (work.ts).

import type { Queryable } from '../database.js';
import type { ServiceAccount } from '../../../accounts/service-accounts.js';
import { dateOf } from './times.js';

export interface ServiceAccountRow {
  id: string;
  organization_id: string;
  name: string;
  role: ServiceAccount['role'];
  disabled: boolean;
  created_by: string | null;
  created_at: number;
}

export const SERVICE_ACCOUNT_COLUMNS = 'id, organization_id, name, role, disabled, created_by, created_at';

export const serviceAccountOf = (row: ServiceAccountRow): ServiceAccount => ({
  id: row.id,
  organizationId: row.organization_id,
  name: row.name,
  role: row.role,
  disabled: row.disabled,
  createdBy: row.created_by,
  createdAt: dateOf(row.created_at),
});

/** Oldest first. `id`: returns only that service account. */
export async function serviceAccountsOf(
  sql: Queryable,
  organizationId: string,
  id: string | null = null,
): Promise<ServiceAccount[]> {
  return (
    await sql.query<ServiceAccountRow>(
      `SELECT ${SERVICE_ACCOUNT_COLUMNS} FROM service_accounts WHERE organization_id = $1 AND id = coalesce($2, id)
       ORDER BY created_at, id`,
      [organizationId, id],
    )
  ).map(serviceAccountOf);
}

/** Inserts or updates a service account. */
export async function putServiceAccount(sql: Queryable, account: ServiceAccount): Promise<void> {
  await sql.query(
    `INSERT INTO service_accounts (${SERVICE_ACCOUNT_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (id) DO UPDATE SET name = excluded.name, role = excluded.role, disabled = excluded.disabled`,
    [
      account.id,
      account.organizationId,
      account.name,
      account.role,
      account.disabled,
      account.createdBy,
      Date.parse(account.createdAt),
    ],
  );
}
