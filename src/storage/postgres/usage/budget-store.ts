// Implements BudgetStore on the shared database's settings, keyed by organization, and the audit log.

import type { AuditNote } from '../../../accounts/audit.js';
import { noteSetting } from '../accounts/audit-log.js';
import type { Queryable } from '../database.js';
import type { AccountWork } from '../accounts/work.js';
import { putSetting, removeSetting, settingOf, settingsOfKind } from '../setting-rows.js';
import type { Budget, BudgetStore } from '../../../usage/budget-store.js';

export class PostgresBudgetStore implements BudgetStore {
  constructor(private readonly work: AccountWork) {}

  async get(organizationId: string): Promise<Budget | null> {
    return (await settingOf<Budget>(this.work.sql, 'budget', organizationId)) ?? null;
  }

  all(): Promise<ReadonlyMap<string, Budget>> {
    return settingsOfKind<Budget>(this.work.sql, 'budget');
  }

  set(organizationId: string, budget: Budget | null, note: AuditNote | null): Promise<void> {
    return this.work.change((sql) => put(sql, organizationId, budget, note));
  }

  update(organizationId: string, change: (before: Budget | null) => Budget | null, note: AuditNote): Promise<void> {
    return this.work.change(async (sql) => {
      const before = await settingOf<Budget>(sql, 'budget', organizationId);
      await put(sql, organizationId, change(before ?? null), note);
    });
  }

  markNotified(organizationId: string, month: string, percent: number): Promise<boolean> {
    return this.work.change(async (sql) => {
      const budget = await settingOf<Budget>(sql, 'budget', organizationId);
      if (budget === undefined || (budget.told?.month === month && budget.told.percent >= percent)) return false;
      await putSetting(sql, 'budget', organizationId, { ...budget, told: { month, percent } });
      return true;
    });
  }
}

/** Must be called within a transaction of AccountWork. */
async function put(
  sql: Queryable,
  organizationId: string,
  budget: Budget | null,
  note: AuditNote | null,
): Promise<void> {
  if (budget === null) await removeSetting(sql, 'budget', organizationId);
  else await putSetting(sql, 'budget', organizationId, budget);
  await noteSetting(sql, organizationId, note, organizationId);
}
