// What organizations want to spend in a calendar month (UTC), and whom to tell: a port, see docs/internals/storage.md. A budget
// stops nothing; the monthly token cap does.

import type { AuditNote } from '../accounts/audit.js';

export interface Budget {
  /** In the currency of the prices. */
  readonly amount: number;
  /** Mail to its owners and admins. */
  readonly mail: boolean;
  readonly webhookUrl: string | null;
  /** Signs what is sent to it. */
  readonly webhookSecret: string;
  /** The highest share that was told of, in percent, and the month (`2026-11`). */
  readonly told: { readonly month: string; readonly percent: number } | null;
}

export interface BudgetStore {
  get(organizationId: string): Promise<Budget | null>;
  all(): Promise<ReadonlyMap<string, Budget>>;
  /** Null: none any more. What the audit log says of it stands or falls with it. */
  set(organizationId: string, budget: Budget | null, note: AuditNote | null): Promise<void>;
  /** Of many at once one is told that it is the first to tell of that share. */
  tell(organizationId: string, month: string, percent: number): Promise<boolean>;
}
