// Who changed what: one entry per change that a person or an operator makes to an organization's accounts,
// keys and limits. Table `audit`, keyed [organization, time, id].

import type { AuditEntry } from '../dashboard/wire.js';

/** Who acts, as an audit entry has it. */
export interface Actor { readonly type: AuditEntry['actor']['type']; readonly id: string | null; readonly email: string | null; readonly ip: string | null }

export interface AuditLog {
  /** Within a transaction it is written with it. Organization null: of the server as a whole. */
  note(organizationId: string | null, actor: Actor, action: string, target: string | null, detail?: Record<string, unknown>): void;
  /** Youngest first. `after`: the `next` of the page before. */
  list(organizationId: string | null, limit: number, after: string | null): { data: AuditEntry[]; next: string | null };
}
