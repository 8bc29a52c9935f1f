// Converts database rows to dashboard API objects.

import type { ShownInvite } from '../../accounts/invites.js';
import type { OrganizationView } from '../../accounts/organizations.js';
import { sessionEnd } from '../../accounts/sessions.js';
import type { Session } from '../../accounts/sessions.js';
import { lastSignIn } from '../../accounts/users.js';
import type { User } from '../../accounts/users.js';
import type { LimitValues } from '../../shared/wire/limits.js';
import type { InviteObject, OrganizationObject } from '../../shared/wire/organizations.js';
import type { SessionObject, UserObject } from '../../shared/wire/users.js';

const time = (milliseconds: number): string => new Date(milliseconds).toISOString();

export function userObject(user: User): UserObject {
  return {
    id: user.id,
    email: user.email,
    name: user.name,
    email_verified: user.emailVerified,
    operator: user.operator,
    second_factor: user.secondFactor === true,
    has_password: user.passwordHash !== '',
    created_at: user.createdAt,
    last_login_at: lastSignIn(user),
  };
}

/** The organization's limits, by model name. */
export type OrganizationLimits = (organization: OrganizationView) => Record<string, LimitValues>;

export function organizationObject(
  { id, name, status, createdAt, settings: { keepsText, dashboardAddresses } }: OrganizationView,
  limits: Record<string, LimitValues>,
): OrganizationObject {
  return {
    id,
    name,
    status,
    created_at: createdAt,
    limits,
    request_text: keepsText === true,
    dashboard_addresses: [...(dashboardAddresses ?? [])],
  };
}

export function sessionObject(session: Session, currentId: string): SessionObject {
  return {
    id: session.id,
    user_id: session.userId,
    created_at: time(session.createdAt),
    last_seen_at: time(session.lastSeenAt),
    expires_at: time(sessionEnd(session)),
    ip: session.ip,
    user_agent: session.userAgent,
    current: session.id === currentId,
  };
}

/** `base`: the dashboard's address, used in the link of a pending invitation. */
export function inviteObject(
  { id, organizationId, email, role, state, createdAt, expiresAt, token }: ShownInvite,
  base: string,
): InviteObject {
  return {
    id,
    organization_id: organizationId,
    email,
    role,
    state,
    created_at: time(createdAt),
    expires_at: time(expiresAt),
    url: token === null ? null : inviteUrl(base, token),
  };
}

/** URLs of the dashboard pages that links in emails open. */
export const inviteUrl = (base: string, token: string): string => `${base}/dashboard/accept-invite?token=${token}`;
export const setupUrl = (base: string, code: string): string => `${base}/dashboard/signup?code=${code}`;
export const resetUrl = (base: string, token: string): string => `${base}/dashboard/reset?token=${token}`;
export const newEmailUrl = (base: string, token: string): string => `${base}/dashboard/verify?new=1&token=${token}`;
export const verifyUrl = (base: string, token: string): string => `${base}/dashboard/verify?token=${token}`;
