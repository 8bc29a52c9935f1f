// Storage port for organizations, their settings and their deletion (see docs/internals/storage.md). Each method is one
// transaction, including its audit entry, and is durable when it resolves. Once deleted, an organization is unknown
// immediately, its keys are rejected, and its number is never reused. Caches are notified of changes.

import type { LimitOverride } from '../config/kinds.js';
import { AddressList } from '../shared/address-list.js';
import { apiError } from '../shared/errors.js';
import type { Actor } from './audit.js';
import type { Organization } from './keys.js';
import type { Page } from './page.js';
import type { User } from './users.js';

/**
 * Number of the organization that the first startup creates for the operator. Never assigned to another organization.
 */
export const FIRST_ORGANIZATION_NUMBER = 1;

/** An organization's settings, which override the general ones. Unless stated otherwise, operators set them. */
export interface OrganizationSettings {
  /** By model or `*`. */
  limits: Record<string, LimitOverride>;
  /** Tokens per calendar month (UTC); null: no cap. */
  monthlyTokenCap: number | null;
  /** Whether the request log stores prompts and responses. Set by the organization's admins. */
  keepsText?: boolean;
  /**
   * IP addresses and CIDR ranges from which members can open the organization on the dashboard. Absent or empty allows
   * all addresses. Set by the organization's admins; operators can clear it.
   */
  dashboardAddresses?: readonly string[];
}

/** The settings of an organization without any overrides. */
export const NO_SETTINGS: OrganizationSettings = Object.freeze({ limits: Object.freeze({}), monthlyTokenCap: null });

/** An organization with its settings. */
export interface OrganizationView extends Organization {
  readonly settings: OrganizationSettings;
}

/** An organization with additional data for operators. */
export interface OrganizationOverview extends OrganizationView {
  readonly members: number;
  readonly activeKeys: number;
}

/** Fields that an operator may change. Undefined fields stay unchanged. */
export interface OrganizationChange {
  status?: Organization['status'] | undefined;
  /** Replaces all limits set before. */
  limits?: Record<string, LimitOverride> | undefined;
  monthlyTokenCap?: number | null | undefined;
  keepsText?: boolean | undefined;
  dashboardAddresses?: readonly string[] | undefined;
}

export interface Organizations {
  /** Null if not found or deleted. */
  get(id: string): Promise<OrganizationView | null>;
  /** All organizations, oldest first. For the command line. */
  all(): Promise<Organization[]>;
  /** Ordered by ID. `after`: ID of the previous page's last entry. */
  page(limit: number, after: string | null): Promise<Page<Organization>>;
  overview(id: string): Promise<OrganizationOverview | null>;
  /** Paginated like page(). */
  overviews(limit: number, after: string | null): Promise<Page<OrganizationOverview>>;
  /** The first organization, which is created if there is none. */
  ensureFirst(): Promise<Organization>;
  /**
   * `owner`: the organization's owner. `most`: the maximum number of organizations that a user who is not an operator
   * may own. Rejects with ApiError 403 or 422.
   */
  create(name: string, owner: User, most: number, actor: Actor): Promise<OrganizationView>;
  /** Null if not found or deleted. */
  rename(id: string, name: string, actor: Actor): Promise<OrganizationView | null>;
  /** Null if not found or deleted. If `actor` is absent, no audit entry is written. */
  change(id: string, change: OrganizationChange, actor: Actor | null): Promise<OrganizationOverview | null>;
  /**
   * The organization, its members and its invitations disappear immediately. Its keys are revoked when this resolves.
   */
  delete(id: string, actor: Actor): Promise<void>;
  /**
   * Completes interrupted deletions: revokes the keys, and returns the organizations that may still have stored data.
   */
  resumeDeletions(): Promise<{ id: string; deletedAt: number }[]>;
  /** Records that all of the organization's stored data has been erased. */
  markErased(id: string): Promise<void>;
  /**
   * Erases the keys and settings of organizations that were deleted before `time` and are marked as erased. Only their
   * numbers remain.
   */
  eraseKeys(time: number): Promise<void>;
}

/**
 * Limits the number of organizations per user: a new organization has its own limits, so otherwise users could create
 * new ones to evade limits or a suspension. Throws ApiError 403 or 422.
 */
export function checkOwned({ operator }: User, owned: readonly Organization[], most: number): void {
  if (operator) return;
  if (owned.some(({ status }) => status === 'suspended'))
    throw apiError('organization_suspended', 'You cannot create an organization while one of yours is suspended.');
  if (owned.length >= most)
    throw apiError(
      'too_many_entries',
      `You can own at most ${most} organizations on this server. Contact its operator.`,
    );
}

/** Whether two lists have the same entries in the same order. */
export const isSameList = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((one, at) => one === b[at]);

/** Whether the organization may be opened on the dashboard from this IP address. */
export const mayOpenFrom = ({ dashboardAddresses }: OrganizationSettings, address: string): boolean =>
  AddressList.of(dashboardAddresses)?.allows(address) !== false;
