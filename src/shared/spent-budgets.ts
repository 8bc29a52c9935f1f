// The spent budgets that stop requests. One thread computes them, and all threads check them. Types only.

export type BudgetScope = 'organization' | 'member' | 'key';

export interface SpentBudget {
  readonly scope: BudgetScope;
  readonly organizationId: string;
  /** The organization, the user, or the first key of a chain of rotations. */
  readonly id: string;
  readonly amount: number;
  readonly spent: number;
}

export interface SpentBudgets {
  /** The month in which the budgets are spent, such as 202611. They do not stop requests in later months. */
  readonly month: number;
  readonly currency: string;
  readonly organizations: ReadonlyMap<string, SpentBudget>;
  /** Spent budgets by memberName(), for requests that a member makes without an API key. */
  readonly members: ReadonlyMap<string, SpentBudget>;
  /** API keys that are stopped by their own budget or by that of the member who created them. */
  readonly keys: ReadonlyMap<string, SpentBudget>;
}

export const memberName = (organizationId: string, userId: string): string => `${organizationId}\n${userId}`;
