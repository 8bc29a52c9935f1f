// Tokens for invitation links: the invitation's ID plus an HMAC keyed by a secret in the database. This allows a
// pending link to be shown again, while the rows alone do not reveal valid tokens. No side effects.

import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Role } from '../shared/wire/organizations.js';
import { mayInvite } from './invites.js';
import type { Invite, InviteState, ShownInvite } from './invites.js';

/** How long accepted, revoked and expired invitations stay in the list of invitations. */
export const INVITES_KEPT_MS = 30 * 24 * 3_600_000;

export function inviteState(invite: Invite, now: number): InviteState {
  if (invite.acceptedAt !== null) return 'accepted';
  if (invite.revokedAt !== null) return 'revoked';
  return invite.expiresAt <= now ? 'expired' : 'pending';
}

/**
 * The pending invitations that this user created but may no longer create with their current role. They must be
 * revoked, because the user could use one to return or to bring in others.
 */
export function outlived(invites: readonly Invite[], userId: string, own: Role | undefined, now: number): Invite[] {
  return invites.filter(
    (invite) => invite.createdBy === userId && inviteState(invite, now) === 'pending' && !mayInvite(own, invite.role),
  );
}

/** The invitation with its state and, while it is pending, its link's token. */
export function shownInvite(invite: Invite, secret: Uint8Array, now: number): ShownInvite {
  const state = inviteState(invite, now);
  return {
    ...invite,
    state,
    token: state === 'pending' ? `${invite.id.slice('inv_'.length)}.${mac(secret, invite.id)}` : null,
  };
}

/** Returns the ID of a token's invitation, or null if the token was not created with this secret. */
export function invitedBy(token: string, secret: Uint8Array): string | null {
  const [, bare, given] = /^([0-9A-Za-z]{24})\.([\w-]{43})$/.exec(token) ?? [];
  const id = `inv_${bare ?? ''}`;
  return given !== undefined && timingSafeEqual(Buffer.from(given), Buffer.from(mac(secret, id))) ? id : null;
}

const mac = (secret: Uint8Array, id: string): string => createHmac('sha256', secret).update(id).digest('base64url');
