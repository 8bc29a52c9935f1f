// Invitations to an organization: a port, see docs/internals/storage.md. Each method is one unit of work, with what the audit log
// says of it, durable when it resolves. An invitation is read with its state and its link's token. Who acts is looked
// up again within the unit of work: what their role was before it began counts for nothing.

import { apiError } from '../shared/errors.js';
import type { Role } from '../shared/wire/dashboard.js';
import type { Actor } from './audit.js';
import { hasRole } from './members.js';
import type { OrganizationView } from './organizations.js';
import type { Slice } from './slice.js';
import type { User } from './users.js';

export const INVITE_MS = 7 * 24 * 3_600_000;
/** Of one organization, those that are over included until they are swept. */
export const MAX_INVITES = 500;

export type InviteState = 'pending' | 'accepted' | 'revoked' | 'expired';

export interface Invite {
  id: string; // inv_…
  organizationId: string;
  email: string; // as normalEmail() gives it
  role: Role;
  createdBy: string | null; // user_…; null: made before that was kept
  createdAt: number; // milliseconds
  expiresAt: number;
  acceptedAt: number | null;
  revokedAt: number | null;
}

/** `token`: of its link, as long as it is pending. */
export interface ShownInvite extends Invite {
  readonly state: InviteState;
  readonly token: string | null;
}

export interface Invites {
  /** Youngest first; null if `after` is none of the organization's. */
  page(organizationId: string, limit: number, after: string | null): Promise<Slice<ShownInvite> | null>;
  /** One that is pending for the same address gives way. Rejects with ApiError 403, 422. */
  create(organizationId: string, email: string, role: Role, by: string, actor: Actor): Promise<ShownInvite>;
  /** Idempotent; one that is over stays as it is. Rejects with ApiError 403, 404. */
  revoke(organizationId: string, id: string, by: string, actor: Actor): Promise<void>;
  /** What a pending one's link leads to. Rejects with ApiError 400 invalid_token. */
  ofLink(token: string): Promise<{ invite: Invite; organization: { id: string; name: string } }>;
  /** It is used up, and its user a member. Rejects with ApiError 400, 403, 422. */
  accept(token: string, user: User, actor: Actor): Promise<OrganizationView>;
}

/** `own`: the role of who invites; undefined: they are no member. */
export const mayInvite = (own: Role | undefined, role: Role): boolean =>
  own !== undefined && hasRole(own, role === 'owner' ? 'owner' : 'admin');

/** Throws ApiError 403. `own`: the role of who invites, or takes back. */
export function checkInviting(own: Role | undefined, role: Role): void {
  if (mayInvite(own, role)) return;
  throw apiError(
    'role_not_allowed',
    role === 'owner'
      ? 'Only owners may invite owners or take such an invitation back.'
      : 'Inviting somebody, or taking an invitation back, needs the role admin.',
  );
}

export const invitedAlready = (): Error =>
  apiError('invalid_value', 'Who has this address is a member already.', 'email');
export const tooManyInvites = (): Error =>
  apiError(
    'too_many_entries',
    `An organization may have at most ${MAX_INVITES} invitations, those of the last 30 days included.`,
  );
export const noSuchInvite = (): Error => apiError('resource_not_found', 'There is no such invitation.', 'id');
export const inviteOfAnother = (): Error =>
  apiError(
    'invalid_value',
    'This invitation is for another e-mail address than the one you are signed in with.',
    'invite',
  );
export const organizationGone = (): Error =>
  apiError('invalid_token', 'The organization of this invitation is gone.', 'invite');
export const invalidInvite = (): Error =>
  apiError('invalid_token', 'This invitation is not valid any more. Ask for a new one.', 'invite');
