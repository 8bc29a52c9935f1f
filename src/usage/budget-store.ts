// Storage port for organizations' budgets per calendar month (UTC) and the notifications about them (see
// docs/internals/storage.md). A budget does not block requests; the monthly token cap does.

import type { AuditNote } from '../accounts/audit.js';

export interface Budget {
  /** In the same currency as the prices. */
  readonly amount: number;
  /** Whether the owners and admins are notified by mail. */
  readonly mail: boolean;
  readonly webhookUrl: string | null;
  /** The secret that signs webhook requests. */
  readonly webhookSecret: string;
  /** The highest threshold, in percent, about which the organization has been notified, and its month (`2026-11`). */
  readonly told: { readonly month: string; readonly percent: number } | null;
}

export interface BudgetStore {
  get(organizationId: string): Promise<Budget | null>;
  all(): Promise<ReadonlyMap<string, Budget>>;
  /** Null removes the budget. The audit entry is written in the same transaction. */
  set(organizationId: string, budget: Budget | null, note: AuditNote | null): Promise<void>;
  /**
   * Records that the organization is notified about a threshold. If there are several concurrent callers, resolves to
   * true for exactly one of them.
   */
  markNotified(organizationId: string, month: string, percent: number): Promise<boolean>;
}
