// Storage port for invitations to an organization (see docs/internals/storage.md). Each method is one transaction,
// including its audit entry, and is durable when it resolves. Invitations are returned with their state and their
// link's token. The acting user's role is read again within the transaction.

import { apiError } from '../shared/errors.js';
import type { Role } from '../shared/wire/organizations.js';
import type { Actor } from './audit.js';
import { hasRole } from './members.js';
import type { OrganizationView } from './organizations.js';
import type { Page } from './page.js';
import type { User } from './users.js';

export const INVITE_MS = 7 * 24 * 3_600_000;
/**
 * Maximum number of invitations per organization, including accepted, revoked and expired ones that have not been swept
 * yet.
 */
export const MAX_INVITES = 500;

export type InviteState = 'pending' | 'accepted' | 'revoked' | 'expired';

export interface Invite {
  id: string; // inv_…
  organizationId: string;
  email: string; // as returned by normalEmail()
  role: Role;
  createdBy: string | null; // user_…; null if created before this was stored
  createdAt: number; // milliseconds
  expiresAt: number;
  acceptedAt: number | null;
  revokedAt: number | null;
}

/** `token`: the link's token while the invitation is pending. */
export interface ShownInvite extends Invite {
  readonly state: InviteState;
  readonly token: string | null;
}

export interface Invites {
  /**
   * Newest first. `after`: ID of the previous page's last invitation. Null if the organization does not have that
   * invitation.
   */
  page(organizationId: string, limit: number, after: string | null): Promise<Page<ShownInvite> | null>;
  /** Replaces a pending invitation for the same address. Rejects with ApiError 403 or 422. */
  create(organizationId: string, email: string, role: Role, by: string, actor: Actor): Promise<ShownInvite>;
  /** Idempotent; an invitation that is no longer pending does not change. Rejects with ApiError 403 or 404. */
  revoke(organizationId: string, id: string, by: string, actor: Actor): Promise<void>;
  /** The pending invitation for a link. Rejects with ApiError 400 invalid_token. */
  ofLink(token: string): Promise<{ invite: Invite; organization: { id: string; name: string } }>;
  /** Marks the invitation as accepted and makes the user a member. Rejects with ApiError 400, 403 or 422. */
  accept(token: string, user: User, actor: Actor): Promise<OrganizationView>;
}

/** Whether a user may invite with this role. `own`: the inviting user's role; undefined if the user is not a member. */
export const mayInvite = (own: Role | undefined, role: Role): boolean =>
  own !== undefined && hasRole(own, role === 'owner' ? 'owner' : 'admin');

/**
 * Checks that a user may invite with this role or revoke such an invitation. `own`: the user's role. Throws ApiError
 * 403.
 */
export function checkInviting(own: Role | undefined, role: Role): void {
  if (mayInvite(own, role)) return;
  throw apiError(
    'role_not_allowed',
    role === 'owner'
      ? 'Only owners can invite other owners or revoke those invitations.'
      : 'Inviting users and revoking invitations requires the admin role.',
  );
}

export const invitedAlready = (): Error =>
  apiError('invalid_value', 'A user with this email address is already a member.', 'email');
export const tooManyInvites = (): Error =>
  apiError(
    'too_many_entries',
    `An organization can have at most ${MAX_INVITES} invitations, including those of the last 30 days.`,
  );
export const noSuchInvite = (): Error => apiError('resource_not_found', 'Invitation not found.', 'id');
export const inviteOfAnother = (): Error =>
  apiError(
    'invalid_value',
    'This invitation is for a different email address than the one you are signed in with.',
    'invite',
  );
export const organizationGone = (): Error =>
  apiError('invalid_token', 'The organization of this invitation no longer exists.', 'invite');
export const invalidInvite = (): Error =>
  apiError('invalid_token', 'This invitation is no longer valid. Ask for a new one.', 'invite');
