// Invitation rows. For their links, see invite-links.ts. Functions that write must be called within a transaction
// (work.ts).

import { newAccountId } from '../../../shared/ids.js';
import type { Queryable } from '../database.js';
import type { Role } from '../../../shared/wire/organizations.js';
import { invitedBy, INVITES_KEPT_MS, inviteState, outlived, shownInvite } from '../../../accounts/invite-links.js';
import { INVITE_MS, invalidInvite, MAX_INVITES } from '../../../accounts/invites.js';
import type { Invite, ShownInvite } from '../../../accounts/invites.js';
import { ensureSecret } from './secret-rows.js';

interface InviteRow {
  id: string;
  organization_id: string;
  email: string;
  role: Role;
  created_by: string | null;
  created_at: number;
  expires_at: number;
  accepted_at: number | null;
  revoked_at: number | null;
}

const COLUMNS = 'id, organization_id, email, role, created_by, created_at, expires_at, accepted_at, revoked_at';

const inviteOf = (row: InviteRow): Invite => ({
  id: row.id,
  organizationId: row.organization_id,
  email: row.email,
  role: row.role,
  createdBy: row.created_by,
  createdAt: row.created_at,
  expiresAt: row.expires_at,
  acceptedAt: row.accepted_at,
  revokedAt: row.revoked_at,
});

/** Newest first. */
export async function invitesOf(sql: Queryable, organizationId: string): Promise<Invite[]> {
  return (
    await sql.query<InviteRow>(
      `SELECT ${COLUMNS} FROM invites WHERE organization_id = $1 ORDER BY created_at DESC, id`,
      [organizationId],
    )
  ).map(inviteOf);
}

export async function inviteById(sql: Queryable, organizationId: string, id: string): Promise<Invite | undefined> {
  const [row] = await sql.query<InviteRow>(`SELECT ${COLUMNS} FROM invites WHERE organization_id = $1 AND id = $2`, [
    organizationId,
    id,
  ]);
  return row === undefined ? undefined : inviteOf(row);
}

/** Replaces a pending invitation for the same address. Resolves to null if there are too many. */
export async function createInvite(
  sql: Queryable,
  {
    now,
    organizationId,
    email,
    role,
    createdBy,
  }: { now: number; organizationId: string; email: string; role: Role; createdBy: string },
): Promise<Invite | null> {
  const others = await invitesOf(sql, organizationId);
  if (others.length >= MAX_INVITES) return null;
  for (const other of others)
    if (other.email === email && inviteState(other, now) === 'pending')
      await endInvite(sql, now, other.id, 'revoked_at');
  const [row] = await sql.query<InviteRow>(
    `INSERT INTO invites (id, organization_id, email, role, created_by, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING ${COLUMNS}`,
    [newAccountId('inv'), organizationId, email, role, createdBy, now, now + INVITE_MS],
  );
  return inviteOf(row as InviteRow);
}

/** Revokes and returns the invitations that this user created and that the role `own` may not create. */
export async function endOutlived(
  sql: Queryable,
  now: number,
  organizationId: string,
  userId: string,
  own: Role | undefined,
): Promise<Invite[]> {
  const made = await sql.query<InviteRow>(
    `SELECT ${COLUMNS} FROM invites WHERE organization_id = $1 AND created_by = $2 ORDER BY created_at, id`,
    [organizationId, userId],
  );
  const over = outlived(made.map(inviteOf), userId, own, now);
  for (const { id } of over) await endInvite(sql, now, id, 'revoked_at');
  return over;
}

export async function endInvite(
  sql: Queryable,
  now: number,
  id: string,
  how: 'accepted_at' | 'revoked_at',
): Promise<void> {
  await sql.query(
    how === 'accepted_at'
      ? 'UPDATE invites SET accepted_at = $2 WHERE id = $1'
      : 'UPDATE invites SET revoked_at = $2 WHERE id = $1',
    [id, now],
  );
}

export async function showInvites(sql: Queryable, now: number, invites: readonly Invite[]): Promise<ShownInvite[]> {
  const secret = await ensureSecret(sql, 'invite-key');
  return invites.map((invite) => shownInvite(invite, secret, now));
}

/** The pending invitation for a link. Rejects with ApiError 400 invalid_token. */
export async function inviteOfLink(sql: Queryable, now: number, token: string): Promise<Invite> {
  const id = invitedBy(token, await ensureSecret(sql, 'invite-key'));
  const [row] = id === null ? [] : await sql.query<InviteRow>(`SELECT ${COLUMNS} FROM invites WHERE id = $1`, [id]);
  if (row === undefined || inviteState(inviteOf(row), now) !== 'pending') throw invalidInvite();
  return inviteOf(row);
}

export async function sweepInvites(sql: Queryable, now: number): Promise<void> {
  await sql.query('DELETE FROM invites WHERE least(expires_at, accepted_at, revoked_at) < $1', [now - INVITES_KEPT_MS]);
}
