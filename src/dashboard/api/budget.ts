// …/budget: an organization's monthly budget, its spending, and the recipients of notifications.

import { z } from 'zod';
import { apiError } from '../../shared/errors.js';
import { hex } from '../../shared/ids.js';
import { hasRole } from '../../accounts/members.js';
import { monthName, monthNumber } from '../../admission/month-use.js';
import type { Actor } from '../../accounts/audit.js';
import type { Route } from '../../http/exchange.js';
import type { Budget, BudgetStore } from '../../usage/budget-store.js';
import { spentInMonth } from '../../usage/budget-watch.js';
import { isInternal } from '../../usage/webhook.js';
import type { BudgetObject } from '../../shared/wire/usage.js';
import type { Config } from '../../config/settings.js';
import type { PriceStore } from '../../usage/price-store.js';
import type { UsageStore } from '../../usage/usage-store.js';
import { readingUsage } from './usage.js';
import { webhookUrlField } from './fields.js';
import type { Guard } from './guard.js';

const PATH = '/organizations/:org/budget';
const body = z.object({
  /** Null means no budget. */
  amount: z.number().positive().max(1e12).nullable(),
  /**
   * Whether requests are refused once the amount has been spent. Only owners can change this. If absent, the setting
   * does not change.
   */
  stops: z.boolean().optional(),
  mail: z.boolean().default(true),
  webhook_url: webhookUrlField.nullable().default(null),
});

export interface BudgetDeps {
  guard: Guard;
  budgets: BudgetStore;
  prices: PriceStore;
  usage: UsageStore;
  config: Pick<Config, 'webhooks'>;
}

export function budgetRoutes(deps: BudgetDeps): Route[] {
  const { guard, budgets, config } = deps;
  return [
    guard.member('viewer', {
      method: 'GET',
      path: PATH,
      handler: async ({ exchange, organization, role }) =>
        exchange.json(200, await budgetObject(deps, organization.id, hasRole(role, 'admin'))),
    }),

    guard.member('admin', {
      method: 'PUT',
      path: PATH,
      body,
      handler: async ({
        exchange,
        organization: { id },
        role,
        actor,
        body: { amount, stops, mail, webhook_url: webhookUrl },
      }) => {
        if (webhookUrl !== null && config.webhooks.public_only && isInternal(webhookUrl)) {
          throw apiError(
            'invalid_value',
            '`webhook_url` must be a public internet address. The operator can allow other addresses with `webhooks.public_only`.',
            'webhook_url',
          );
        }
        const mayStop = hasRole(role, 'owner');
        await setBudget(budgets, id, { amount, stops, mayStop, mail, webhookUrl }, actor);
        exchange.json(200, await budgetObject(deps, id, hasRole(role, 'admin')));
      },
    }),
  ];
}

/** `reveals`: whether the webhook's address and secret are included. */
export async function budgetObject(
  { budgets, prices, usage }: Pick<BudgetDeps, 'budgets' | 'prices' | 'usage'>,
  organizationId: string,
  reveals: boolean,
): Promise<BudgetObject> {
  const budget = await budgets.get(organizationId);
  const table = await prices.get();
  const now = Date.now();
  return {
    amount: budget?.amount ?? null,
    spent:
      table === null
        ? null
        : await readingUsage.run({ organization: organizationId }, 1, () =>
            spentInMonth(usage, organizationId, table, now),
          ),
    currency: table?.currency ?? '',
    month: monthName(monthNumber(now)),
    stops: budget?.stops === true,
    mail: budget?.mail ?? true,
    webhook_url: reveals ? (budget?.webhookUrl ?? null) : null,
    webhook_secret: reveals && budget !== null && budget.webhookUrl !== null ? budget.webhookSecret : null,
  };
}

interface BudgetChange {
  amount: number | null;
  /** Unchanged if undefined. */
  stops?: boolean | undefined;
  /** Whether `stops` may change. */
  mayStop: boolean;
  mail: boolean;
  /** Unchanged if undefined. */
  webhookUrl?: string | null;
}

/**
 * A null amount removes the organization's budget, but keeps its members' and API keys' budgets. Throws ApiError
 * 403.
 */
export async function setBudget(
  budgets: BudgetStore,
  organizationId: string,
  { amount, stops, mayStop, mail, webhookUrl }: BudgetChange,
  actor: Actor,
): Promise<void> {
  const change = (before: Budget | null): Budget | null => {
    const stopsBefore = before?.stops === true;
    if (!mayStop && stops !== undefined && stops !== stopsBefore)
      throw apiError('role_not_allowed', 'Only owners can choose whether a budget stops requests.', 'stops');
    // If the amount changes, notifications can be sent again in the same month. The webhook secret does not change.
    return withoutEmpty({
      ...before,
      amount,
      stops: stops ?? stopsBefore,
      mail,
      webhookUrl: webhookUrl === undefined ? (before?.webhookUrl ?? null) : webhookUrl,
      webhookSecret: before?.webhookSecret ?? hex(64),
      told: before?.amount === amount ? before.told : null,
    });
  };
  await budgets.update(organizationId, change, {
    actor,
    action: 'organization.budget_changed',
    detail: {
      amount,
      mail,
      ...(stops === undefined ? {} : { stops }),
      ...(webhookUrl === undefined ? {} : { webhook_url: webhookUrl }),
    },
  });
}

/**
 * Returns null for a budget without any amount, unless `stops` is set. A budget with `stops` is kept, so that the
 * choice still applies when an admin sets an amount again.
 */
export function withoutEmpty(budget: Budget): Budget | null {
  const { amount, stops, members = {}, keys = {} } = budget;
  const isEmpty = amount === null && stops !== true && Object.keys({ ...members, ...keys }).length === 0;
  return isEmpty ? null : budget;
}
