// Alert conditions for exhausted budgets of organizations, members and API keys. An organization's owners and admins
// receive its budget notifications independently of these alerts (src/usage/budget-watch.ts).

import type { SpentBudget, SpentBudgets } from '../shared/spent-budgets.js';
import type { Budget } from '../usage/budget-store.js';
import { GONE } from './condition.js';
import type { Condition, Description } from './condition.js';
import { money } from './shown.js';

export interface BudgetFacts {
  /** By organization. */
  readonly budgets: ReadonlyMap<string, Budget>;
  /** The exhausted budgets that block requests; null if they have not been computed yet. */
  readonly spent: SpentBudgets | null;
  readonly currency: string;
  /** The month, such as 2026-11. */
  readonly month: string;
  /** `month` as a number (see SpentBudgets). */
  readonly monthNumber: number;
}

/** Finds the names of a budget's owner. */
export interface BudgetNames {
  organization(id: string): Promise<string>;
  /** `id`: ID of a user or service account. */
  member(organizationId: string, id: string): Promise<string>;
  key(organizationId: string, keyId: string): Promise<string>;
}

interface Spent extends Pick<SpentBudget, 'scope' | 'organizationId' | 'id' | 'amount'> {
  /** Null means at least the amount. */
  readonly spent: number | null;
  readonly refuses: boolean;
}

export const budgetKey = (scope: string, organizationId: string, id: string, month: string): string =>
  `budget ${scope} ${organizationId} ${id} ${month}`;

/** Extracts the organization from a key returned by budgetKey(). */
export const organizationOfBudget = (key: string): string => key.split(' ')[2] ?? '';

/** One condition per spent budget. */
export function spentBudgets(facts: BudgetFacts, names: BudgetNames): Condition[] {
  return allSpent(facts).map((one) => ({
    key: budgetKey(one.scope, one.organizationId, one.id, facts.month),
    kind: 'budget',
    level: 'over',
    name: `Budget of ${one.scope === 'key' ? 'API key' : one.scope} ${one.id}`,
    value: one.spent,
    threshold: one.amount,
    shownValue: one.spent === null ? 'spent' : money(one.spent, facts.currency),
    shownThreshold: `${money(one.amount, facts.currency)} for ${facts.month}`,
    note: null,
    now: GONE.budget,
    ownNotice: one.scope === 'organization' ? one.organizationId : null,
    describe: () => described(one, facts, names),
  }));
}

function allSpent({ budgets, spent, month, monthNumber }: BudgetFacts): Spent[] {
  const current = spent?.month === monthNumber ? spent : null;
  const found = new Map<string, Spent>();
  // Budgets that only notify are computed once per minute, and the highest threshold reached is stored.
  for (const [id, { amount, told, stops }] of budgets) {
    const reached = current?.organizations.get(id);
    if (amount === null || !(reached !== undefined || (told?.month === month && told.percent >= 100))) continue;
    found.set(`organization ${id}`, {
      scope: 'organization',
      organizationId: id,
      id,
      amount,
      spent: reached?.spent ?? null,
      refuses: stops === true,
    });
  }
  const parts = current === null ? [] : [...current.members.values(), ...current.keys.values()];
  for (const one of parts) found.set(`${one.scope} ${one.organizationId} ${one.id}`, { ...one, refuses: true });
  return [...found.values()];
}

async function described(
  { scope, organizationId, id, amount, spent, refuses }: Spent,
  { currency, month }: BudgetFacts,
  names: BudgetNames,
): Promise<Description> {
  const organization = await names.organization(organizationId);
  const owner =
    scope === 'organization'
      ? `organization "${organization}"`
      : scope === 'member'
        ? `member ${await names.member(organizationId, id)} of organization "${organization}"`
        : `API key ${await names.key(organizationId, id)} of organization "${organization}"`;
  const used = spent === null ? '' : `${money(spent, currency)} of `;
  return {
    title: `Budget spent: ${owner}`,
    what: `The ${owner} has spent ${spent === null ? 'its whole budget of ' : used}${money(amount, currency)} for ${month}. ${refuses ? 'Its requests are refused until the next month (UTC) or until the budget is raised.' : 'Requests are not refused.'}`,
    process: null,
    lookAt: `The page "Organizations" of the dashboard: open "${organization}", then "Budget".`,
  };
}
