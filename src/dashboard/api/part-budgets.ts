// …/budgets: the monthly budgets of an organization's members and API keys. Once a budget is exhausted, requests by
// that member or with that key are refused.

import { z } from 'zod';
import type { ApiKeys } from '../../accounts/api-keys.js';
import type { BudgetGate } from '../../admission/budget-gate.js';
import { monthName, monthNumber } from '../../admission/month-use.js';
import type { Members } from '../../accounts/members.js';
import { isServiceAccountId } from '../../accounts/service-accounts.js';
import type { ServiceAccounts } from '../../accounts/service-accounts.js';
import type { Route } from '../../http/exchange.js';
import { apiError } from '../../shared/errors.js';
import { hex } from '../../shared/ids.js';
import type { PartBudgetObject, PartBudgets, StoppedBudgets } from '../../shared/wire/usage.js';
import { firstKeys, monthSpan, partStandings, spentByKey } from '../../usage/budget-standing.js';
import { MAX_PART_BUDGETS } from '../../usage/budget-store.js';
import type { Budget } from '../../usage/budget-store.js';
import { allKeys } from '../../usage/spent-budget-watch.js';
import { withoutEmpty } from './budget.js';
import type { BudgetDeps } from './budget.js';
import { readingUsage } from './usage.js';

const PATH = '/organizations/:org/budgets';

/** Null means no separate budget. */
const body = z.object({ amount: z.number().positive().max(1e12).nullable() });

export interface PartBudgetDeps extends Pick<BudgetDeps, 'guard' | 'budgets' | 'prices' | 'usage'> {
  apiKeys: Pick<ApiKeys, 'page'>;
  members: Pick<Members, 'of'>;
  serviceAccounts: Pick<ServiceAccounts, 'get'>;
  budgetGate: Pick<BudgetGate, 'stoppedIn'>;
}

export function partBudgetRoutes(deps: PartBudgetDeps): Route[] {
  const { guard, budgets, apiKeys, members, serviceAccounts, budgetGate } = deps;
  return [
    guard.member('viewer', {
      method: 'GET',
      path: PATH,
      handler: async ({ exchange, organization: { id } }) => {
        const list: PartBudgets = { object: 'list', data: await standingsOf(deps, id) };
        exchange.json(200, list);
      },
    }),

    guard.member('viewer', {
      method: 'GET',
      path: `${PATH}/stopped`,
      handler: ({ exchange, organization }) => {
        const { currency, budgets: stopped } = budgetGate.stoppedIn(organization.id);
        const list: StoppedBudgets = {
          object: 'list',
          currency,
          month: monthName(monthNumber(Date.now())),
          data: stopped.map(({ scope, id, amount }) => ({ scope, id, amount })),
        };
        exchange.json(200, list);
      },
    }),

    guard.member('admin', {
      method: 'PUT',
      path: `${PATH}/:part`,
      body,
      handler: async ({ exchange, organization, actor, body: { amount } }) => {
        const asked = exchange.params['part'] as string;
        const scope = asked.startsWith('user_') || isServiceAccountId(asked) ? 'member' : 'key';
        let id: string | undefined;
        if (scope === 'key') id = firstKeys(await allKeys(apiKeys, organization.id)).get(asked);
        else if (
          isServiceAccountId(asked)
            ? (await serviceAccounts.get(organization.id, asked)) !== null
            : (await members.of(organization.id, asked)) !== null
        )
          id = asked;
        // The budget of a former member or deleted key can be removed, but not set.
        const before = await budgets.get(organization.id);
        if (id === undefined && amount === null && hasAmount(before, scope, asked)) id = asked;
        if (id === undefined) throw apiError('resource_not_found', 'Member or API key not found.', 'part');
        const part = { scope, id, amount } as const;
        await budgets.update(organization.id, (budget) => withPart(budget, part), {
          actor,
          action: 'organization.part_budget_changed',
          detail: { [scope]: id, amount },
        });
        const found = (await standingsOf(deps, organization.id)).find((one) => one.id === id);
        exchange.json(
          200,
          found ?? ({ scope, id, amount: null, spent: null, api_keys: [] } satisfies PartBudgetObject),
        );
      },
    }),
  ];
}

const fieldOf = (scope: PartBudgetObject['scope']): 'members' | 'keys' => (scope === 'member' ? 'members' : 'keys');

const hasAmount = (budget: Budget | null, scope: PartBudgetObject['scope'], id: string): boolean =>
  Object.hasOwn(budget?.[fieldOf(scope)] ?? {}, id);

/** Returns the organization's budget with the amount of one member or key set or removed. Throws ApiError 422. */
function withPart(
  before: Budget | null,
  { scope, id, amount }: { scope: PartBudgetObject['scope']; id: string; amount: number | null },
): Budget | null {
  const budget: Budget = before ?? { amount: null, mail: true, webhookUrl: null, webhookSecret: hex(64), told: null };
  const field = fieldOf(scope);
  const { [id]: _replaced, ...others } = budget[field] ?? {};
  const changed: Budget = { ...budget, [field]: amount === null ? others : { ...others, [id]: amount } };
  const { members = {}, keys = {} } = changed;
  if (Object.keys(members).length + Object.keys(keys).length > MAX_PART_BUDGETS)
    throw apiError(
      'too_many_entries',
      `At most ${MAX_PART_BUDGETS} members and API keys can have budgets of their own.`,
      'part',
    );
  return withoutEmpty(changed);
}

async function standingsOf(
  { budgets, prices, usage, apiKeys }: PartBudgetDeps,
  organizationId: string,
): Promise<PartBudgetObject[]> {
  const budget = await budgets.get(organizationId);
  if (budget === null) return [];
  const table = await prices.get();
  const spent =
    table === null
      ? new Map<string, number>()
      : await readingUsage.run({ organization: organizationId }, 1, () =>
          spentByKey(usage, organizationId, table, monthSpan(Date.now())),
        );
  return partStandings(budget, await allKeys(apiKeys, organizationId), spent).map(
    ({ scope, id, amount, spent: cost, keys }) => ({
      scope,
      id,
      amount,
      spent: table === null ? null : cost,
      api_keys: keys,
    }),
  );
}
