// …/budget: an organization's monthly budget, its spending, and the recipients of notifications.

import { z } from 'zod';
import { apiError } from '../../shared/errors.js';
import { hex } from '../../shared/ids.js';
import { hasRole } from '../../accounts/members.js';
import { monthName, monthNumber } from '../../admission/month-use.js';
import type { Route } from '../../http/exchange.js';
import type { Budget, BudgetStore } from '../../usage/budget-store.js';
import { spentInMonth } from '../../usage/budget-watch.js';
import { isInternal } from '../../usage/webhook.js';
import type { Role } from '../../shared/wire/organizations.js';
import type { BudgetObject } from '../../shared/wire/usage.js';
import type { Config } from '../../config/settings.js';
import type { PriceStore } from '../../usage/price-store.js';
import type { UsageStore } from '../../usage/usage-store.js';
import { readingUsage } from './usage.js';
import type { Guard } from './guard.js';

const PATH = '/organizations/:org/budget';
const isAddress = (value: string): boolean =>
  URL.canParse(value) && /^https?:$/.test(new URL(value).protocol) && new URL(value).username === '';
const body = z.object({
  /** Null: no budget. */
  amount: z.number().positive().max(1e12).nullable(),
  mail: z.boolean().default(true),
  webhook_url: z
    .string()
    .max(1_024)
    .refine(isAddress, 'must be an http:// or https:// address without a password')
    .nullable()
    .default(null),
});

export interface BudgetDeps {
  guard: Guard;
  budgets: BudgetStore;
  prices: PriceStore;
  usage: UsageStore;
  config: Pick<Config, 'webhooks'>;
}

export function budgetRoutes({ guard, budgets, prices, usage, config }: BudgetDeps): Route[] {
  const shown = async (organizationId: string, role: Role, budget: Budget | null): Promise<BudgetObject> => {
    const table = await prices.get();
    const now = Date.now();
    const isAdmin = hasRole(role, 'admin');
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
      mail: budget?.mail ?? true,
      webhook_url: isAdmin ? (budget?.webhookUrl ?? null) : null,
      webhook_secret: isAdmin && budget !== null && budget.webhookUrl !== null ? budget.webhookSecret : null,
    };
  };
  return [
    guard.member('viewer', {
      method: 'GET',
      path: PATH,
      handler: async ({ exchange, organization, role }) =>
        exchange.json(200, await shown(organization.id, role, await budgets.get(organization.id))),
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
        body: { amount, mail, webhook_url: webhookUrl },
      }) => {
        if (webhookUrl !== null && config.webhooks.public_only && isInternal(webhookUrl)) {
          throw apiError(
            'invalid_value',
            '`webhook_url` must be a public internet address. The operator can allow others with `webhooks.public_only`.',
            'webhook_url',
          );
        }
        const before = await budgets.get(id);
        // If the amount changes, notifications may be sent again in the same month. The webhook secret does not change.
        const budget: Budget | null =
          amount === null
            ? null
            : {
                amount,
                mail,
                webhookUrl,
                webhookSecret: before?.webhookSecret ?? hex(64),
                told: before?.amount === amount ? before.told : null,
              };
        await budgets.set(id, budget, {
          actor,
          action: 'organization.budget_changed',
          detail: { amount, mail, webhook_url: webhookUrl },
        });
        exchange.json(200, await shown(id, role, budget));
      },
    }),
  ];
}
