// Storage port for organizations' budgets per calendar month (UTC) and the notifications about them (see
// docs/internals/storage.md). An organization's budget blocks requests only if `stops` is set; its members' and API
// keys' budgets always block requests.

import type { AuditNote } from '../accounts/audit.js';

export interface Budget {
  /** In the same currency as the prices. Null if only members or API keys have budgets. */
  readonly amount: number | null;
  /**
   * Whether requests are refused when the amount is spent. Absent in budgets stored by old versions, which means
   * false.
   */
  readonly stops?: boolean;
  /** User ID → amount. Absent if there are none. */
  readonly members?: Readonly<Record<string, number>>;
  /** ID of the first key in a chain of rotations → amount for the whole chain. Absent if there are none. */
  readonly keys?: Readonly<Record<string, number>>;
  /** Whether the owners and admins are notified by email. */
  readonly mail: boolean;
  readonly webhookUrl: string | null;
  /** The secret that signs webhook requests. */
  readonly webhookSecret: string;
  /**
   * The highest threshold about which the organization has been notified, in percent, and the month of that
   * notification (`2026-11`).
   */
  readonly told: { readonly month: string; readonly percent: number } | null;
}

/** Maximum number of members and API keys with their own budgets, per organization. */
export const MAX_PART_BUDGETS = 2_000;

export interface BudgetStore {
  get(organizationId: string): Promise<Budget | null>;
  all(): Promise<ReadonlyMap<string, Budget>>;
  /** Null removes the budget. The audit entry is written in the same transaction. */
  set(organizationId: string, budget: Budget | null, note: AuditNote | null): Promise<void>;
  /**
   * Replaces the stored budget with the result of `change`, in one transaction with the audit entry. If `change`
   * throws, rejects with that error and changes nothing.
   */
  update(organizationId: string, change: (before: Budget | null) => Budget | null, note: AuditNote): Promise<void>;
  /**
   * Records that the organization is notified about a threshold. If several callers run concurrently, resolves to true
   * for exactly one of them.
   */
  markNotified(organizationId: string, month: string, percent: number): Promise<boolean>;
}
