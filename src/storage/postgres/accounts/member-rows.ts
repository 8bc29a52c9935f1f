// Membership rows, including roles. Functions that write must be called within a transaction (work.ts).

import type { Queryable } from '../database.js';
import type { Role } from '../../../shared/wire/organizations.js';
import type { Membership, OwnOrganization } from '../../../accounts/members.js';
import { besides, ORGANIZATION_BESIDE, viewOf } from './organization-rows.js';
import { dateOf } from './times.js';

export interface MembershipRow {
  organization_id: string;
  user_id: string;
  role: Role;
  created_at: number;
}

export const membershipOf = (row: MembershipRow): Membership => ({
  organizationId: row.organization_id,
  userId: row.user_id,
  role: row.role,
  createdAt: dateOf(row.created_at),
});

export async function membership(
  sql: Queryable,
  organizationId: string,
  userId: string,
): Promise<Membership | undefined> {
  const [row] = await sql.query<MembershipRow>(
    'SELECT organization_id, user_id, role, created_at FROM memberships WHERE organization_id = $1 AND user_id = $2',
    [organizationId, userId],
  );
  return row === undefined ? undefined : membershipOf(row);
}

/** Oldest membership first. With `organizationId`, returns only the membership in that organization. */
export async function ownOrganizations(
  sql: Queryable,
  userId: string,
  organizationId: string | null = null,
): Promise<OwnOrganization[]> {
  const rows = await sql.query<{ role: Role }>(
    `SELECT memberships.role, ${ORGANIZATION_BESIDE} FROM memberships JOIN organizations ON organizations.id = memberships.organization_id
     WHERE memberships.user_id = $1 AND organizations.deleted_at IS NULL AND memberships.organization_id = coalesce($2, memberships.organization_id)
     ORDER BY memberships.created_at, memberships.organization_id`,
    [userId, organizationId],
  );
  return rows.map((row) => ({ organization: viewOf(besides(row)), role: row.role }));
}

export async function countMembers(sql: Queryable, organizationId: string): Promise<number> {
  return (
    (
      await sql.query<{ count: number }>('SELECT count(*) FROM memberships WHERE organization_id = $1', [
        organizationId,
      ])
    )[0]?.count ?? 0
  );
}

export async function countBelonging(sql: Queryable, userId: string): Promise<number> {
  return (
    (await sql.query<{ count: number }>('SELECT count(*) FROM memberships WHERE user_id = $1', [userId]))[0]?.count ?? 0
  );
}

/** Whether this user is the organization's only owner. */
export async function isLastOwner(sql: Queryable, organizationId: string, userId: string): Promise<boolean> {
  const owners = await sql.query<{ user_id: string }>(
    "SELECT user_id FROM memberships WHERE organization_id = $1 AND role = 'owner' LIMIT 2",
    [organizationId],
  );
  return owners.length === 1 && owners[0]?.user_id === userId;
}

export async function putMember(
  sql: Queryable,
  organizationId: string,
  userId: string,
  role: Role,
): Promise<Membership> {
  const [row] = await sql.query<MembershipRow>(
    `INSERT INTO memberships (organization_id, user_id, role, created_at) VALUES ($1, $2, $3, $4)
     ON CONFLICT (organization_id, user_id) DO UPDATE SET role = excluded.role RETURNING organization_id, user_id, role, created_at`,
    [organizationId, userId, role, Date.now()],
  );
  return membershipOf(row as MembershipRow);
}

export async function removeMember(sql: Queryable, organizationId: string, userId: string): Promise<void> {
  await sql.query('DELETE FROM memberships WHERE organization_id = $1 AND user_id = $2', [organizationId, userId]);
}
