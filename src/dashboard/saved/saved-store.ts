// Storage port for saved playground presets and conversations (see docs/internals/storage.md). Each belongs to one user
// in one organization; other members see it only while it is shared. The caller encrypts names and contents.

import { apiError } from '../../shared/errors.js';

export type SavedKind = 'preset' | 'conversation';

export interface SavedRow {
  readonly id: string;
  readonly organizationId: string;
  /** The owner. */
  readonly userId: string;
  readonly kind: SavedKind;
  readonly sealedName: string;
  /** Whether members of the organization may open it. */
  readonly shared: boolean;
  /** Milliseconds since the Unix epoch. */
  readonly createdAt: number;
  /** Time of expiry; null: never. */
  readonly expiresAt: number | null;
}

export interface SavedChange {
  readonly sealedName?: string;
  readonly sealedContent?: string;
  readonly shared?: boolean;
  readonly expiresAt?: number | null;
}

/** Maximum number of items per user within an organization, and per organization. */
export const MAX_SAVED = { ofUser: 100, ofOrganization: 2_000 } as const;

/**
 * Checks the limits before an item is added. `own`: number of items that the user already has; `all`: number of items
 * in the organization. Throws ApiError 422.
 */
export function checkSaved(own: number, all: number): void {
  if (own >= MAX_SAVED.ofUser)
    throw apiError(
      'too_many_entries',
      `You have ${own} saved presets and conversations in this organization, which is the maximum. Delete one first.`,
    );
  if (all >= MAX_SAVED.ofOrganization)
    throw apiError(
      'too_many_entries',
      `This organization has ${all} saved presets and conversations, which is the maximum.`,
    );
}

export interface SavedStore {
  /** Rejects with ApiError 422 too_many_entries if a limit is reached. */
  add(row: SavedRow, sealedContent: string): Promise<void>;
  /** The organization's items that have not expired, oldest first, without their content. */
  list(organizationId: string): Promise<SavedRow[]>;
  /** Null if not found or expired. */
  get(organizationId: string, id: string): Promise<{ row: SavedRow; sealedContent: string } | null>;
  /** Resolves to the changed row, or to null if it no longer exists. */
  change(organizationId: string, id: string, change: SavedChange): Promise<SavedRow | null>;
  /** Idempotent. */
  remove(organizationId: string, id: string): Promise<void>;
  eraseOrganization(organizationId: string): Promise<void>;
  eraseUser(userId: string): Promise<void>;
  /** Erases expired items and the items of users who no longer exist. */
  sweep(isUser: (userId: string) => Promise<boolean>): Promise<void>;
}
