// The requests of the last days, one entry each: a port, see docs/internals/storage.md. Isolated by organization where one is
// named; null: of all, for operators.

import type { Outcome, RequestEntry, RequestText } from '../../shared/request-entry.js';

/** As it is kept: its text lies apart. */
export type LoggedRow = Omit<RequestEntry, 'text'> & { readonly hasText: boolean };

export interface RequestQuery {
  readonly organizationId: string | null;
  readonly keyId: string | null;
  readonly model: string | null;
  readonly outcome: Outcome | null;
}

/** An entry by its id, `<milliseconds>.<request id>`: its place in the order of time. */
export interface ListedRow {
  readonly id: string;
  readonly row: LoggedRow;
}

/** `next`: where to go on; there may be some though `rows` has few or none, if few of many match. */
export interface RequestPage {
  readonly rows: ListedRow[];
  readonly next: string | null;
}

/** What is older than `before` (milliseconds since 1970) goes, then the oldest of what is more than `rows` or `bytes`. */
export interface RequestBounds {
  readonly before: number;
  readonly rows: number;
  readonly bytes: number;
}

export interface RequestLog {
  /** All of them or, if it rejects, none. */
  add(entries: readonly RequestEntry[]): Promise<void>;
  /** Youngest first. `after`: the `next` of a page before; rejects with ApiError 400 if it is none. */
  list(query: RequestQuery, limit: number, after: string | null): Promise<RequestPage>;
  /** Null if there is none, or it is another organization's. */
  find(organizationId: string | null, id: string): Promise<LoggedRow | null>;
  text(organizationId: string, id: string): Promise<RequestText | null>;
  /** What there is of all organizations, bytes about. */
  size(): Promise<{ rows: number; bytes: number }>;
  /** Resolves to how many entries went. What is left when `signal` says to stop goes another time. */
  erase(bounds: RequestBounds, signal: AbortSignal): Promise<number>;
  /** Prompts and answers alone. */
  eraseTexts(organizationId: string): Promise<void>;
  eraseOrganization(organizationId: string): Promise<void>;
}
