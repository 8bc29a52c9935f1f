// Audit log: one entry for each change that a user or operator makes to an organization's accounts, keys and limits. A
// storage port (see docs/internals/storage.md). Changes made through another port are logged by that port.

import { apiError } from '../shared/errors.js';
import { newAccountId } from '../shared/ids.js';
import type { AuditEntry } from '../shared/wire/organizations.js';

/** The actor of an audit entry. */
export interface Actor {
  readonly type: AuditEntry['actor']['type'];
  readonly id: string | null;
  readonly email: string | null;
  readonly ip: string | null;
}

/** The fields of an audit entry that cannot be derived from the change itself. */
export interface AuditNote {
  readonly actor: Actor;
  readonly action: string;
  readonly detail?: Record<string, unknown>;
}

export interface AuditPage {
  readonly data: AuditEntry[];
  readonly next: string | null;
}

export interface AuditLog {
  /** Adds an entry that is not part of another transaction. A null organization means the whole server. */
  note(
    organizationId: string | null,
    actor: Actor,
    action: string,
    target: string | null,
    detail?: Record<string, unknown>,
  ): Promise<void>;
  /** Newest first. `after`: the `next` value from the previous page. Rejects with ApiError 400 if it is invalid. */
  list(organizationId: string | null, limit: number, after: string | null, filter?: AuditFilter): Promise<AuditPage>;
}

/** Filters for audit entries. An absent or null field matches every entry. */
export interface AuditFilter {
  /**
   * An action, or the common prefix of several actions: `api_key` matches `api_key.created`, `api_key.revoked` and so
   * on.
   */
  readonly action?: string | null;
  /** Who made the change: a user's ID or email address or, for other actors, the actor type. */
  readonly actor?: string | null;
  /** The ID of the changed object. */
  readonly target?: string | null;
  /** Start (inclusive) and end (exclusive), in milliseconds since the Unix epoch. */
  readonly from?: number | null;
  readonly to?: number | null;
  /** If false, entries about temporary API keys are excluded. */
  readonly temporary?: boolean;
}

/** Whether an entry matches the filters, ignoring its time. */
export function matchesAudit({ actor, action, target, detail }: AuditEntry, filter: AuditFilter): boolean {
  const wanted = filter.actor?.toLowerCase();
  return (
    (filter.action == null || action === filter.action || action.startsWith(`${filter.action}.`)) &&
    (wanted == null ||
      actor.id?.toLowerCase() === wanted ||
      actor.email?.toLowerCase() === wanted ||
      isType(actor, wanted)) &&
    (filter.target == null || target === filter.target) &&
    (filter.temporary !== false || detail['temporary'] !== true)
  );
}

const isType = ({ type }: AuditEntry['actor'], wanted: string): boolean => type !== 'user' && type === wanted;

export const AUDIT_KEPT_MS = 2 * 365 * 24 * 3_600_000;
/** Maximum number of entries per organization. When it is exceeded, the oldest entries are deleted. */
export const MAX_AUDIT_ENTRIES = 10_000;

/** `at` is in milliseconds. */
export const auditEntry = (
  at: number,
  { type, id, email, ip }: Actor,
  action: string,
  target: string | null,
  detail: Record<string, unknown>,
): AuditEntry => ({
  id: newAccountId('aud'),
  at: new Date(at).toISOString(),
  actor: { type, id, email },
  action,
  target,
  ip,
  detail,
});

/** Parses a page cursor: an entry's sequence number and ID. Throws ApiError 400. */
export function auditCursor(after: string): [number, string] {
  const [, at, id] = /^(\d{1,15})\.(aud_[0-9A-Za-z]{24})$/.exec(after) ?? [];
  if (at === undefined || id === undefined)
    throw apiError('invalid_query_parameter', 'after must be the `next` value of the previous page.', 'after');
  return [Number(at), id];
}
