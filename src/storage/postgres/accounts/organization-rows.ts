// Organization rows, including settings. Deleted organizations keep a row, so that their numbers are never reused.
// Functions that write must be called within a transaction (work.ts).

import { newAccountId } from '../../../shared/ids.js';
import type { Queryable } from '../database.js';
import type { Organization } from '../../../accounts/keys.js';
import type { OrganizationSettings, OrganizationView } from '../../../accounts/organizations.js';
import { dateOf, dateOrNull } from './times.js';

export interface OrganizationRow {
  id: string;
  number: number;
  name: string;
  status: Organization['status'];
  created_at: number;
  deleted_at: number | null;
  erased: boolean;
  keys_erased: boolean;
  limits: OrganizationSettings['limits'];
  monthly_token_cap: number | null;
  keeps_text: boolean;
  dashboard_addresses: string[];
}

const NAMES = [
  'id',
  'number',
  'name',
  'status',
  'created_at',
  'deleted_at',
  'erased',
  'keys_erased',
  'limits',
  'monthly_token_cap',
  'keeps_text',
  'dashboard_addresses',
];
const COLUMNS = NAMES.join(', ');
/** Columns of `organizations` in a join, renamed to start with organization_. */
export const ORGANIZATION_BESIDE = NAMES.map((name) => `organizations.${name} AS organization_${name}`).join(', ');

export function organizationOf(row: OrganizationRow): Organization {
  return {
    id: row.id,
    tenant: row.number,
    name: row.name,
    status: row.status,
    createdAt: dateOf(row.created_at),
    ...(row.deleted_at === null
      ? {}
      : { deletedAt: dateOrNull(row.deleted_at), erased: row.erased, keysErased: row.keys_erased }),
  };
}

export const settingsOf = ({
  limits,
  monthly_token_cap: monthlyTokenCap,
  keeps_text: keepsText,
  dashboard_addresses: dashboardAddresses,
}: OrganizationRow): OrganizationSettings => ({ limits, monthlyTokenCap, keepsText, dashboardAddresses });

export const viewOf = (row: OrganizationRow): OrganizationView => ({
  ...organizationOf(row),
  settings: settingsOf(row),
});

/** The organization in a row read with ORGANIZATION_BESIDE. */
export function besides(row: object): OrganizationRow {
  const values = row as Record<string, unknown>;
  return Object.fromEntries(NAMES.map((name) => [name, values[`organization_${name}`]])) as unknown as OrganizationRow;
}

/** Undefined if not found or deleted. */
export async function organizationById(sql: Queryable, id: string): Promise<OrganizationView | undefined> {
  const [row] = await sql.query<OrganizationRow>(
    `SELECT ${COLUMNS} FROM organizations WHERE id = $1 AND deleted_at IS NULL`,
    [id],
  );
  return row === undefined ? undefined : viewOf(row);
}

/** Organizations that are not deleted, oldest first. */
export async function organizationsInOrder(sql: Queryable, limit: number | null = null): Promise<Organization[]> {
  return (
    await sql.query<OrganizationRow>(
      `SELECT ${COLUMNS} FROM organizations WHERE deleted_at IS NULL ORDER BY number LIMIT $1`,
      [limit],
    )
  ).map(organizationOf);
}

/** Ordered by ID, starting after `after`. */
export async function organizationsFrom(
  sql: Queryable,
  limit: number,
  after: string | null,
): Promise<OrganizationView[]> {
  return (
    await sql.query<OrganizationRow>(
      `SELECT ${COLUMNS} FROM organizations WHERE deleted_at IS NULL AND id > $1 ORDER BY id LIMIT $2`,
      [after ?? '', limit],
    )
  ).map(viewOf);
}

/**
 * Deleted organizations that may still have stored data. With `time`, returns instead the organizations that were
 * deleted before that time and have only keys left.
 */
export async function deletedOrganizations(
  sql: Queryable,
  time: number | null,
): Promise<{ id: string; deletedAt: number }[]> {
  const rows = await sql.query<{ id: string; deleted_at: number }>(
    `SELECT id, deleted_at FROM organizations WHERE deleted_at IS NOT NULL
       AND CASE WHEN $1::bigint IS NULL THEN NOT erased ELSE erased AND NOT keys_erased AND deleted_at < $1 END ORDER BY number`,
    [time],
  );
  return rows.map(({ id, deleted_at: deletedAt }) => ({ id, deletedAt }));
}

/** Numbers are never reused, because they identify organizations in the prefix cache and in counters. */
export async function createOrganization(sql: Queryable, name: string): Promise<OrganizationView> {
  const [next] = await sql.query<{ last_number: number }>(
    'UPDATE accounts_state SET last_number = last_number + 1 RETURNING last_number',
  );
  const [row] = await sql.query<OrganizationRow>(
    `INSERT INTO organizations (id, number, name, status, created_at) VALUES ($1, $2, $3, 'active', $4) RETURNING ${COLUMNS}`,
    [newAccountId('org'), next?.last_number ?? 0, name, Date.now()],
  );
  return viewOf(row as OrganizationRow);
}

/** Undefined if not found. */
export async function changeOrganization(
  sql: Queryable,
  id: string,
  { name, status, settings }: { name?: string; status?: Organization['status']; settings?: OrganizationSettings },
): Promise<OrganizationView | undefined> {
  const [row] = await sql.query<OrganizationRow>(
    `UPDATE organizations SET name = coalesce($2, name), status = coalesce($3, status), limits = coalesce($4, limits),
       monthly_token_cap = CASE WHEN $4::json IS NULL THEN monthly_token_cap ELSE $5::bigint END, keeps_text = coalesce($6, keeps_text),
       dashboard_addresses = coalesce($7, dashboard_addresses)
     WHERE id = $1 AND deleted_at IS NULL RETURNING ${COLUMNS}`,
    [
      id,
      name ?? null,
      status ?? null,
      settings === undefined ? null : JSON.stringify(settings.limits),
      settings?.monthlyTokenCap ?? null,
      settings?.keepsText ?? null,
      settings?.dashboardAddresses === undefined ? null : JSON.stringify(settings.dashboardAddresses),
    ],
  );
  return row === undefined ? undefined : viewOf(row);
}

export async function markDeleted(sql: Queryable, id: string): Promise<void> {
  await sql.query(
    "UPDATE organizations SET status = 'suspended', deleted_at = $2 WHERE id = $1 AND deleted_at IS NULL",
    [id, Date.now()],
  );
}
