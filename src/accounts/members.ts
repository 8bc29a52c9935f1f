// Storage port for memberships and roles (see docs/internals/storage.md). Each method is one transaction, including its
// audit entry, and is durable when it resolves. Members are returned with their user's public data, and organizations
// with their settings. The acting user's role is read again within the transaction. An organization always keeps at
// least one owner.

import { apiError } from '../shared/errors.js';
import { ROLES } from '../shared/wire/organizations.js';
import type { Role } from '../shared/wire/organizations.js';
import type { Actor } from './audit.js';
import type { Organization } from './keys.js';
import type { OrganizationView } from './organizations.js';
import type { Page } from './page.js';
import type { User } from './users.js';

export interface Membership {
  organizationId: string;
  userId: string;
  role: Role;
  createdAt: string;
}

/** Upper bound for lists that are returned without paging. */
export const MAX_MEMBERS = 1_000;
export const MAX_ORGANIZATIONS_OF_USER = 50;

export interface Member extends Membership {
  readonly email: string;
  readonly name: string;
  readonly lastLoginAt: string | null;
}

/** An organization, and the user's role in it. */
export interface OwnOrganization {
  readonly organization: OrganizationView;
  readonly role: Role;
}

export interface Members {
  /** Returns null if the user is not a member or the organization does not exist. */
  of(organizationId: string, userId: string): Promise<OwnOrganization | null>;
  /** Oldest membership first; at most MAX_ORGANIZATIONS_OF_USER. */
  organizationsOf(userId: string): Promise<OwnOrganization[]>;
  /** Oldest first. `after`: the user of the previous page's last entry. Null if that user is not a member. */
  page(organizationId: string, limit: number, after: string | null): Promise<Page<Member> | null>;
  /** Only owners can grant or remove the owner role. Rejects with ApiError 403, 404 or 422. */
  changeRole(organizationId: string, userId: string, role: Role, by: string, actor: Actor): Promise<Member>;
  /**
   * Sets a user's role regardless of the caller's role, and adds the user as a member if needed. The last owner remains
   * an owner. Rejects with ApiError 403 organization_suspended, 404 or 422 too_many_entries.
   */
  assign(organizationId: string, userId: string, role: Role, actor: Actor): Promise<'assigned' | 'last_owner'>;
  /**
   * Removes a member. Any member can leave the organization. If an admin removes another member, that user's sessions
   * end. Rejects with ApiError 403, 404 or 422.
   */
  remove(organizationId: string, userId: string, by: string, actor: Actor): Promise<void>;
}

/** Whether `role` includes all rights of the role `least`. */
export function hasRole(role: Role, least: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(least);
}

// Rules shared by all implementations of the port. They throw ApiError.

export function knownMember<T>(membership: T | undefined): T {
  if (membership === undefined) throw apiError('resource_not_found', 'Member not found.', 'user');
  return membership;
}

/** `touched`: the roles being granted or removed. */
export function checkOwner(own: Role | undefined, ...touched: Role[]): void {
  if (touched.includes('owner') && own !== 'owner')
    throw apiError('role_not_allowed', 'Only owners can grant, change or remove the owner role.');
}

export function checkManaging(own: Role | undefined): void {
  if (own === undefined || !hasRole(own, 'admin'))
    throw apiError('role_not_allowed', 'Changing or removing a member requires the admin role.');
}

export const lastOwner = (param: string): Error =>
  apiError('invalid_value', 'An organization needs at least one owner. Make another member an owner first.', param);

/** Checks that the user has not been deleted in the meantime. */
export function knownPerson(user: User | undefined): User {
  if (user === undefined) throw apiError('not_signed_in', 'This account no longer exists.');
  return user;
}

/** Throws ApiError 422 if an organization with `count` members cannot have another one. */
export function checkMembers(count: number): void {
  if (count >= MAX_MEMBERS)
    throw apiError('too_many_entries', `An organization can have at most ${MAX_MEMBERS} members.`);
}

/** Throws ApiError 422 if a user with `count` memberships cannot have another one. */
export function checkBelonging(count: number): void {
  if (count >= MAX_ORGANIZATIONS_OF_USER)
    throw apiError('too_many_entries', `A user can belong to at most ${MAX_ORGANIZATIONS_OF_USER} organizations.`);
}

/** Checks that a new member can be added. `organization`: undefined if not found or deleted. */
export function checkJoining(
  organization: Organization | undefined,
  members: number,
): asserts organization is Organization {
  if (organization === undefined) throw apiError('resource_not_found', 'Organization not found.', 'org');
  if (organization.status === 'suspended') throw apiError('organization_suspended', 'The organization is suspended.');
  checkMembers(members);
}
