// The spent budgets that block requests. One thread computes them, and all threads check them. Types only.

export type BudgetScope = 'organization' | 'member' | 'key';

export interface SpentBudget {
  readonly scope: BudgetScope;
  readonly organizationId: string;
  /** ID of the organization, the user, or the first key in a chain of rotations. */
  readonly id: string;
  readonly amount: number;
  readonly spent: number;
}

export interface SpentBudgets {
  /** The month in which the budgets are spent, such as 202611. They do not block requests in later months. */
  readonly month: number;
  readonly currency: string;
  readonly organizations: ReadonlyMap<string, SpentBudget>;
  /** Spent budgets by memberName(), for requests that a member makes without an API key. */
  readonly members: ReadonlyMap<string, SpentBudget>;
  /** API keys that are blocked by their own budget or by the budget of the member who created them. */
  readonly keys: ReadonlyMap<string, SpentBudget>;
}

export const memberName = (organizationId: string, userId: string): string => `${organizationId}\n${userId}`;
