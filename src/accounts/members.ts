// Who belongs to which organization, with which role: a port, see docs/internals/storage.md. Each method is one unit of work, with
// what the audit log says of it, durable when it resolves; a member is read with what is shown of their user, an
// organization with its settings. Who acts is looked up again within the unit of work: what their role was before it
// began counts for nothing. One owner always stays.

import { apiError } from '../shared/errors.js';
import { ROLES } from '../shared/wire/dashboard.js';
import type { Role } from '../shared/wire/dashboard.js';
import type { Actor } from './audit.js';
import type { OrganizationView } from './organizations.js';
import type { Slice } from './slice.js';
import type { User } from './users.js';

export interface Membership {
  organizationId: string;
  userId: string;
  role: Role;
  createdAt: string;
}

/** Bounds what is listed whole. */
export const MAX_MEMBERS = 1_000;
export const MAX_ORGANIZATIONS_OF_USER = 50;

export interface Member extends Membership {
  readonly email: string;
  readonly name: string;
  readonly lastLoginAt: string | null;
}

/** An organization as one of its members has it. */
export interface OwnOrganization {
  readonly organization: OrganizationView;
  readonly role: Role;
}

export interface Members {
  /** Null if this is no member, or there is no such organization (any more). */
  of(organizationId: string, userId: string): Promise<OwnOrganization | null>;
  /** Oldest membership first; at most MAX_ORGANIZATIONS_OF_USER. */
  organizationsOf(userId: string): Promise<OwnOrganization[]>;
  /** Oldest first. `after`: the user of the last one before; null if that is none. */
  page(organizationId: string, limit: number, after: string | null): Promise<Slice<Member> | null>;
  /** Only owners make owners, or unmake them. Rejects with ApiError 403, 404, 422. */
  changeRole(organizationId: string, userId: string, role: Role, by: string, actor: Actor): Promise<Member>;
  /** Somebody leaves, or an admin removes somebody else, whose sessions end with it. Rejects with ApiError 403, 404, 422. */
  remove(organizationId: string, userId: string, by: string, actor: Actor): Promise<void>;
}

/** Whether a role may do what `least` may. */
export function hasRole(role: Role, least: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(least);
}

// What holds whoever keeps the members. These throw ApiError.

export function knownMember<T>(membership: T | undefined): T {
  if (membership === undefined) throw apiError('resource_not_found', 'There is no such member.', 'user');
  return membership;
}

/** `touched`: the roles that are given or taken. */
export function checkOwner(own: Role | undefined, ...touched: Role[]): void {
  if (touched.includes('owner') && own !== 'owner')
    throw apiError('role_not_allowed', 'Only owners may make, change or remove owners.');
}

export function checkManaging(own: Role | undefined): void {
  if (own === undefined || !hasRole(own, 'admin'))
    throw apiError('role_not_allowed', 'Changing or removing a member needs the role admin.');
}

export const lastOwner = (param: string): Error =>
  apiError('invalid_value', 'The last owner of an organization stays one. Make somebody else an owner first.', param);

/** Who has deleted the account meanwhile belongs to nothing any more. */
export function knownPerson(user: User | undefined): User {
  if (user === undefined) throw apiError('not_signed_in', 'This account is gone.');
  return user;
}

/** Of one more. */
export function checkMembers(count: number): void {
  if (count >= MAX_MEMBERS)
    throw apiError('too_many_entries', `An organization may have at most ${MAX_MEMBERS} members.`);
}

/** Of one more. */
export function checkBelonging(count: number): void {
  if (count >= MAX_ORGANIZATIONS_OF_USER)
    throw apiError('too_many_entries', `Nobody may belong to more than ${MAX_ORGANIZATIONS_OF_USER} organizations.`);
}
