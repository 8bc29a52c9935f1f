// Storage port for the request log: one entry for each recent request (see docs/internals/storage.md). With an
// organization, methods see only its entries; with null, they see all entries, for operators. Entries of requests
// without a known API key belong to NO_ORGANIZATION.

import type { Outcome, RequestEntry, RequestText } from '../../shared/request-entry.js';

/** The stored row; its text is stored separately. */
export type LoggedRow = Omit<RequestEntry, 'text'> & { readonly hasText: boolean };

export interface RequestQuery {
  readonly organizationId: string | null;
  readonly keyId: string | null;
  readonly model: string | null;
  readonly outcome: Outcome | null;
  /** Selects the request with this ID. */
  readonly requestId?: string | null;
  /** Only requests that ended at or after this time, in milliseconds since the Unix epoch. */
  readonly from?: number | null;
  /** Only requests that ended before this time. */
  readonly to?: number | null;
}

/** Maximum number of entries without an organization. When it is exceeded, the oldest are erased. */
export const MAX_UNKNOWN_CLIENT_ROWS = 10_000;

/** An entry with its ID, `<milliseconds>.<request id>`, which sorts by time. */
export interface ListedRow {
  readonly id: string;
  readonly row: LoggedRow;
}

/**
 * `next`: cursor for the next page. It may be set even if `rows` has few or no entries, because few entries may match
 * the filter.
 */
export interface RequestPage {
  readonly rows: ListedRow[];
  readonly next: string | null;
}

/**
 * Entries older than `before` (milliseconds since the Unix epoch) are erased, then the oldest ones beyond `rows` or
 * `bytes`, and the oldest ones without an organization beyond MAX_UNKNOWN_CLIENT_ROWS.
 */
export interface RequestBounds {
  readonly before: number;
  readonly rows: number;
  readonly bytes: number;
}

export interface RequestLog {
  /** Adds all entries, or rejects and adds none. */
  add(entries: readonly RequestEntry[]): Promise<void>;
  /** Newest first. `after`: the `next` value from the previous page. Rejects with ApiError 400 if it is invalid. */
  list(query: RequestQuery, limit: number, after: string | null): Promise<RequestPage>;
  /** Resolves to null if the entry is not found or belongs to another organization. */
  find(organizationId: string | null, id: string): Promise<LoggedRow | null>;
  text(organizationId: string, id: string): Promise<RequestText | null>;
  /** Totals across all organizations. The bytes are approximate. */
  size(): Promise<{ rows: number; bytes: number }>;
  /**
   * Resolves to the number of entries erased. Stops when `signal` is aborted; a later call erases the remaining
   * entries.
   */
  erase(bounds: RequestBounds, signal: AbortSignal): Promise<number>;
  /** Erases only the prompts and responses. */
  eraseTexts(organizationId: string): Promise<void>;
  eraseOrganization(organizationId: string): Promise<void>;
}
