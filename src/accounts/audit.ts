// Who changed what: one entry per change that a person or an operator makes to an organization's accounts,
// keys and limits. A port, see docs/internals/storage.md: what is changed through another port is noted with it there.

import { apiError } from '../shared/errors.js';
import { newAccountId } from '../shared/ids.js';
import type { AuditEntry } from '../shared/wire/dashboard.js';

/** Who acts, as an audit entry has it. */
export interface Actor {
  readonly type: AuditEntry['actor']['type'];
  readonly id: string | null;
  readonly email: string | null;
  readonly ip: string | null;
}

/** What is to be said of a change, beside what was changed. */
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
  /** An entry of its own. Organization null: of the server as a whole. */
  note(
    organizationId: string | null,
    actor: Actor,
    action: string,
    target: string | null,
    detail?: Record<string, unknown>,
  ): Promise<void>;
  /** Youngest first. `after`: the `next` of the page before; rejects with ApiError 400 if it is none. */
  list(organizationId: string | null, limit: number, after: string | null): Promise<AuditPage>;
}

export const AUDIT_KEPT_MS = 2 * 365 * 24 * 3_600_000;
/** Of one organization; the oldest go. */
export const MAX_AUDIT_ENTRIES = 10_000;

/** `at` in milliseconds. */
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

/** Where a page goes on: a number in the order of entries, and the entry's id. Throws ApiError 400. */
export function auditCursor(after: string): [number, string] {
  const [, at, id] = /^(\d{1,15})\.(aud_[0-9A-Za-z]{24})$/.exec(after) ?? [];
  if (at === undefined || id === undefined)
    throw apiError('invalid_query_parameter', 'after must be the `next` of the page before.', 'after');
  return [Number(at), id];
}
