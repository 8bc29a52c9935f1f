// Rejects requests once a budget that applies to them is exhausted. The check reads in-memory maps that
// usage/spent-budget-watch.ts computes. One per HTTP worker thread; used only on its event loop.

import { apiError } from '../shared/errors.js';
import type { ApiError } from '../shared/errors.js';
import type { Identity } from '../shared/identity.js';
import { memberName } from '../shared/spent-budgets.js';
import type { SpentBudget, SpentBudgets } from '../shared/spent-budgets.js';
import { monthName, monthNumber, nextMonth } from './month-use.js';

const OWNERS: Readonly<Record<SpentBudget['scope'], string>> = {
  organization: 'This organization',
  member: 'The member behind this request',
  key: 'This API key',
};

export class BudgetGate {
  #spent: SpentBudgets | null = null;

  constructor(private readonly now: () => number = Date.now) {}

  update(spent: SpentBudgets): void {
    this.#spent = spent;
  }

  /**
   * Every budget applies to a request: the key's, the member's and the organization's. If several are exhausted, the
   * error names the narrowest. Throws ApiError 429 `insufficient_quota`.
   */
  check({ organizationId, keyId, userId }: Pick<Identity, 'organizationId' | 'keyId' | 'userId'>): void {
    const spent = this.#spent;
    if (spent === null) return;
    const budget =
      spent.keys.get(keyId) ??
      (userId === undefined ? undefined : spent.members.get(memberName(organizationId, userId))) ??
      spent.organizations.get(organizationId);
    if (budget === undefined) return;
    const now = this.now();
    if (spent.month === monthNumber(now)) throw budgetSpent(budget, spent.currency, now);
  }

  /** The exhausted budgets that currently block an organization's requests, and their currency. */
  stoppedIn(organizationId: string): { currency: string; budgets: SpentBudget[] } {
    const spent = this.#spent;
    const currency = spent?.currency ?? '';
    if (spent === null || spent.month !== monthNumber(this.now())) return { currency, budgets: [] };
    const found = new Map<string, SpentBudget>();
    for (const budgets of [spent.organizations, spent.members, spent.keys])
      for (const one of budgets.values())
        if (one.organizationId === organizationId) found.set(`${one.scope}\n${one.id}`, one);
    return { currency, budgets: [...found.values()] };
  }
}

function budgetSpent({ scope, amount }: SpentBudget, currency: string, now: number): ApiError {
  const money = currency === '' ? String(amount) : `${amount} ${currency}`;
  const until = nextMonth(now).toISOString().slice(0, 10);
  return apiError(
    'insufficient_quota',
    `${OWNERS[scope]} has spent its budget of ${money} for ${monthName(monthNumber(now))}. Requests are refused until ${until} (UTC) or until the budget is raised.`,
  );
}
