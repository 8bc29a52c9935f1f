// What people keep of the playground: presets and conversations, each somebody's in an organization, and seen by its other
// members only while it is shared. A port, see docs/internals/storage.md. Texts come here sealed.

import { apiError } from '../../shared/errors.js';

export type SavedKind = 'preset' | 'conversation';

export interface SavedRow {
  readonly id: string;
  readonly organizationId: string;
  /** Whose it is. */
  readonly userId: string;
  readonly kind: SavedKind;
  readonly sealedName: string;
  /** Members of the organization may open it. */
  readonly shared: boolean;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  /** It is gone then; null: never. */
  readonly expiresAt: number | null;
}

export interface SavedChange {
  readonly sealedName?: string;
  readonly sealedContent?: string;
  readonly shared?: boolean;
  readonly expiresAt?: number | null;
}

/** Of one person in an organization, and of an organization. */
export const MAX_SAVED = { ofUser: 100, ofOrganization: 2_000 } as const;

/** Of one more, where somebody has `own` and the organization `all`. Throws ApiError 422. */
export function checkSaved(own: number, all: number): void {
  if (own >= MAX_SAVED.ofUser)
    throw apiError(
      'too_many_entries',
      `You have saved ${own} presets and conversations here, and no more can be; delete one first.`,
    );
  if (all >= MAX_SAVED.ofOrganization)
    throw apiError(
      'too_many_entries',
      `This organization has ${all} saved presets and conversations, and no more can be.`,
    );
}

export interface SavedStore {
  /** Rejects with ApiError 422 too_many_entries where there are as many as there may be. */
  add(row: SavedRow, sealedContent: string): Promise<void>;
  /** Those of an organization that have not expired, oldest first, without their content. */
  list(organizationId: string): Promise<SavedRow[]>;
  /** Null: there is none, or it has expired. */
  get(organizationId: string, id: string): Promise<{ row: SavedRow; sealedContent: string } | null>;
  /** Resolves to the row as it is then; null if it is gone. */
  change(organizationId: string, id: string, change: SavedChange): Promise<SavedRow | null>;
  /** Idempotent. */
  remove(organizationId: string, id: string): Promise<void>;
  eraseOrganization(organizationId: string): Promise<void>;
  eraseUser(userId: string): Promise<void>;
  /** Erases what has expired, and what belongs to users who are gone. */
  sweep(isUser: (userId: string) => Promise<boolean>): Promise<void>;
}
