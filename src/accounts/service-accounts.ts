// Storage port for service accounts: members of an organization that cannot sign in and only own API keys (see
// docs/internals/storage.md). Each method is one transaction, including its audit entry, and is durable when it
// resolves. The acting user's role is read again within the transaction. Service accounts are not users: they have no
// password, address or session, cannot be invited, and do not count as owners or members.

import { apiError } from '../shared/errors.js';
import type { Role, ServiceAccountRole } from '../shared/wire/organizations.js';
import type { Actor } from './audit.js';
import { hasRole } from './members.js';

export interface ServiceAccount {
  id: string; // svc_…
  organizationId: string;
  /** Unique within the organization. */
  name: string;
  role: ServiceAccountRole;
  /** Whether its keys are refused. */
  disabled: boolean;
  createdBy: string | null; // user_…
  createdAt: string; // RFC 3339
}

/** `activeKeys`: number of currently valid keys, regardless of `disabled`. */
export interface ListedServiceAccount extends ServiceAccount {
  readonly activeKeys: number;
}

/** Undefined fields do not change. */
export interface ServiceAccountChange {
  name?: string | undefined;
  role?: ServiceAccountRole | undefined;
  disabled?: boolean | undefined;
}

/** Upper bound for lists that are returned without paging. */
export const MAX_SERVICE_ACCOUNTS = 200;

export interface ServiceAccounts {
  /** Null if the organization has no such service account. */
  get(organizationId: string, id: string): Promise<ListedServiceAccount | null>;
  /** Oldest first; at most MAX_SERVICE_ACCOUNTS. */
  list(organizationId: string): Promise<ListedServiceAccount[]>;
  /** `by`: the admin who creates it. Rejects with ApiError 403 or 422. */
  create(
    organizationId: string,
    fields: Pick<ServiceAccount, 'name' | 'role'>,
    by: string,
    actor: Actor,
  ): Promise<ListedServiceAccount>;
  /** Disabling takes effect on running requests as well. Rejects with ApiError 403, 404 or 422. */
  change(
    organizationId: string,
    id: string,
    change: ServiceAccountChange,
    by: string,
    actor: Actor,
  ): Promise<ListedServiceAccount>;
  /**
   * Revokes all its keys in the same transaction, and returns how many were valid. Rejects with ApiError 403 or 404.
   */
  delete(organizationId: string, id: string, by: string, actor: Actor): Promise<number>;
}

/** Whether a key's `createdBy` refers to a service account rather than a user. */
export const isServiceAccountId = (id: string | null): id is string => id?.startsWith('svc_') === true;

// Rules shared by all implementations of the port. They throw ApiError.

/** `own`: the role of the user who manages the service account. */
export function checkManagingAccounts(own: Role | undefined): void {
  if (own === undefined || !hasRole(own, 'admin'))
    throw apiError('role_not_allowed', 'Managing service accounts and their API keys requires the admin role.');
}

export function knownAccount<T>(account: T | undefined): T {
  if (account === undefined) throw apiError('resource_not_found', 'Service account not found.', 'service_account');
  return account;
}

/** `others`: the organization's other service accounts. */
export function checkAccountName(name: string, others: readonly ServiceAccount[]): void {
  if (others.some((one) => one.name === name))
    throw apiError('invalid_value', 'A service account with this name already exists.', 'name');
}

export function checkAccountCount(count: number): void {
  if (count >= MAX_SERVICE_ACCOUNTS)
    throw apiError('too_many_entries', `An organization can have at most ${MAX_SERVICE_ACCOUNTS} service accounts.`);
}

/** Checks that a service account may own a new key. */
export function checkKeyOwner({ role, disabled }: ServiceAccount): void {
  if (!hasRole(role, 'developer'))
    throw apiError('role_not_allowed', 'A service account with the viewer role cannot have API keys.');
  if (disabled)
    throw apiError('invalid_value', 'This service account is disabled. Enable it first.', 'service_account_id');
}

/** Returns the audit entries for a change, each as an action and its details. */
export function changeNotes(before: ServiceAccount, after: ServiceAccount): [action: string, detail: object][] {
  const { name, role, disabled } = after;
  const notes: [boolean, string, object][] = [
    [before.name !== name, 'service_account.renamed', { from: before.name, to: name }],
    [before.role !== role, 'service_account.role_changed', { name, from: before.role, to: role }],
    [before.disabled !== disabled, disabled ? 'service_account.disabled' : 'service_account.enabled', { name }],
  ];
  return notes.filter(([isChanged]) => isChanged).map(([, action, detail]) => [action, detail]);
}

/** The part of a key's audit entry that names the service account. `account`: the key's owner. */
export const ownerDetail = (account: ServiceAccount | undefined): { service_account?: string } =>
  account === undefined ? {} : { service_account: account.name };
