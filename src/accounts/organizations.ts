// Organizations, what an operator set for them, and how they end: a port, see docs/internals/storage.md. Each method is one unit
// of work, with what the audit log says of it, durable when it resolves. One that is deleted is unknown at once, and
// its keys speak for nobody; its number is never given again. What changes is told to who looks organizations up.

import type { LimitOverride } from '../config/kinds.js';
import { apiError } from '../shared/errors.js';
import type { Actor } from './audit.js';
import type { Organization } from './keys.js';
import type { Slice } from './slice.js';
import type { User } from './users.js';

/** Of the organization that the first start makes: the operator's. No other ever gets it. */
export const FIRST_ORGANIZATION_NUMBER = 1;

/** What was set for it, beside the general settings: by operators, where nothing else is said. */
export interface OrganizationSettings {
  /** By model or `*`. */
  limits: Record<string, LimitOverride>;
  /** Tokens per calendar month (UTC); null: no cap. */
  monthlyTokenCap: number | null;
  /** Prompts and answers are kept in the request log: its own admins turn that on. */
  keepsText?: boolean;
}

/** Of one that nothing was set for. */
export const NO_SETTINGS: OrganizationSettings = Object.freeze({ limits: Object.freeze({}), monthlyTokenCap: null });

/** With what an operator set for it. */
export interface OrganizationView extends Organization {
  readonly settings: OrganizationSettings;
}

/** With what operators see of it besides. */
export interface OrganizationOverview extends OrganizationView {
  readonly members: number;
  readonly activeKeys: number;
}

/** What an operator may change of an organization; undefined stays. */
export interface OrganizationChange {
  status?: Organization['status'] | undefined;
  /** Replaces what was set before, whole. */
  limits?: Record<string, LimitOverride> | undefined;
  monthlyTokenCap?: number | null | undefined;
  keepsText?: boolean | undefined;
}

export interface Organizations {
  /** Null if there is none (any more). */
  get(id: string): Promise<OrganizationView | null>;
  /** Every one, oldest first: for the command line. */
  all(): Promise<Organization[]>;
  /** In order of their ids. `after`: the id of the last one before. */
  page(limit: number, after: string | null): Promise<Slice<Organization>>;
  overview(id: string): Promise<OrganizationOverview | null>;
  /** As page(). */
  overviews(limit: number, after: string | null): Promise<Slice<OrganizationOverview>>;
  /** The first one, made if there is none. */
  ensureFirst(): Promise<Organization>;
  /** `owner` becomes that. `most`: how many who is no operator may own. Rejects with ApiError 403, 422. */
  create(name: string, owner: User, most: number, actor: Actor): Promise<OrganizationView>;
  /** Null if there is none (any more). */
  rename(id: string, name: string, actor: Actor): Promise<OrganizationView | null>;
  /** Null if there is none (any more). Without `actor` nothing is noted. */
  change(id: string, change: OrganizationChange, actor: Actor | null): Promise<OrganizationOverview | null>;
  /** It is gone for everybody at once, with its members and invitations; when this resolves its keys are revoked too. */
  delete(id: string, actor: Actor): Promise<void>;
  /** Goes on with deletions that were cut short: those that may have left something elsewhere, their keys revoked. */
  resumeDeletions(): Promise<{ id: string; deletedAt: number }[]>;
  /** Nothing it had stored elsewhere is left. */
  markErased(id: string): Promise<void>;
  /** Takes the keys and settings of those that were deleted before `time` and marked erased: of these the number is left. */
  eraseKeys(time: number): Promise<void>;
}

/** A new organization has limits of its own: nobody gets round theirs, or out of a suspension, by making some. Throws ApiError 403, 422. */
export function checkOwned({ operator }: User, owned: readonly Organization[], most: number): void {
  if (operator) return;
  if (owned.some(({ status }) => status === 'suspended'))
    throw apiError('organization_suspended', 'Whose organization is suspended cannot make another.');
  if (owned.length >= most)
    throw apiError(
      'too_many_entries',
      `Nobody may own more than ${most} organizations here; ask the operator of this server.`,
    );
}
