// Implements BudgetStore on the `budgets` table, keyed by organization, and on the audit log.

import type { AuditNote } from '../../../accounts/audit.js';
import type { LmdbAuditLog } from '../accounts/audit-log.js';
import type { Store, Table } from '../../store.js';
import type { Budget, BudgetStore } from '../../../usage/budget-store.js';

export class LmdbBudgetStore implements BudgetStore {
  readonly #rows: Table<Budget>;

  constructor(
    private readonly store: Store,
    private readonly audit: Pick<LmdbAuditLog, 'note'>,
  ) {
    this.#rows = store.table('budgets');
  }

  async get(organizationId: string): Promise<Budget | null> {
    return this.#rows.get(organizationId) ?? null;
  }

  async all(): Promise<ReadonlyMap<string, Budget>> {
    return new Map([...this.#rows.range()].map(({ key, value }) => [key as string, value]));
  }

  set(organizationId: string, budget: Budget | null, note: AuditNote | null): Promise<void> {
    return this.store.transaction(() => this.#put(organizationId, budget, note));
  }

  update(organizationId: string, change: (before: Budget | null) => Budget | null, note: AuditNote): Promise<void> {
    return this.store.transaction(() =>
      this.#put(organizationId, change(this.#rows.get(organizationId) ?? null), note),
    );
  }

  markNotified(organizationId: string, month: string, percent: number): Promise<boolean> {
    return this.store.transaction(() => {
      const budget = this.#rows.get(organizationId);
      if (budget === undefined || (budget.told?.month === month && budget.told.percent >= percent)) return false;
      void this.#rows.put(organizationId, { ...budget, told: { month, percent } });
      return true;
    });
  }

  #put(organizationId: string, budget: Budget | null, note: AuditNote | null): void {
    if (budget === null) void this.#rows.remove(organizationId);
    else void this.#rows.put(organizationId, budget);
    if (note !== null) void this.audit.note(organizationId, note.actor, note.action, organizationId, note.detail);
  }
}
