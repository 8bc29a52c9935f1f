// An organization's members, API keys and budget, for operators. For its usage, requests and audit log, operators
// filter the server-wide lists.

import { z } from 'zod';
import type { ApiKeys } from '../../accounts/api-keys.js';
import { keyObject } from '../../accounts/keys.js';
import type { Members } from '../../accounts/members.js';
import type { Organizations } from '../../accounts/organizations.js';
import type { ServiceAccounts } from '../../accounts/service-accounts.js';
import { apiError } from '../../shared/errors.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { budgetObject, setBudget } from '../api/budget.js';
import type { BudgetDeps } from '../api/budget.js';
import { listedKeys } from '../api/listed-keys.js';
import { memberObject } from '../api/members.js';
import { listPage, pageQueryOf, readPage } from '../api/paging.js';
import { serviceAccountObject } from '../api/service-accounts.js';
import { readWhole } from '../api/read-whole.js';
import type { OperatorGuard } from './operator-guard.js';

const budgetBody = z.object({
  /** Null means no budget. */
  amount: z.number().positive().max(1e12).nullable(),
  /** Whether requests are refused once the budget is exhausted. If absent, the setting does not change. */
  stops: z.boolean().optional(),
  mail: z.boolean().default(true),
});

export interface OrganizationPartDeps extends Pick<BudgetDeps, 'budgets' | 'prices' | 'usage'> {
  organizations: Pick<Organizations, 'overview'>;
  members: Pick<Members, 'page'>;
  serviceAccounts: Pick<ServiceAccounts, 'list'>;
  apiKeys: Pick<ApiKeys, 'page'>;
  now: () => number;
}

export function organizationPartRoutes(guard: OperatorGuard, deps: OrganizationPartDeps): Route[] {
  const { organizations, members, serviceAccounts, apiKeys, budgets, now } = deps;
  /** Throws ApiError 404. */
  const asked = async (exchange: Exchange): Promise<string> => {
    const id = exchange.params['org'] as string;
    if ((await organizations.overview(id)) === null)
      throw apiError('resource_not_found', 'Organization not found.', 'org');
    return id;
  };
  return [
    guard({
      method: 'GET',
      path: '/organizations/:org/members',
      handler: async ({ exchange }) => {
        const { limit, after } = readPage(exchange.query);
        const id = await asked(exchange);
        exchange.json(200, listPage(await readWhole(exchange, () => members.page(id, limit, after)), memberObject));
      },
    }),

    guard({
      method: 'GET',
      path: '/organizations/:org/service-accounts',
      handler: async ({ exchange }) => {
        const page = readPage(exchange.query);
        const all = (await serviceAccounts.list(await asked(exchange))).map(serviceAccountObject);
        exchange.json(
          200,
          pageQueryOf(all, page, ({ id }) => id),
        );
      },
    }),

    guard({
      method: 'GET',
      path: '/organizations/:org/api-keys',
      handler: async ({ exchange }) => {
        const page = readPage(exchange.query);
        const at = new Date(now());
        const keys = await listedKeys(apiKeys, await asked(exchange), page, at);
        exchange.json(
          200,
          listPage(keys, (key) => keyObject(key, at)),
        );
      },
    }),

    guard({
      method: 'GET',
      path: '/organizations/:org/budget',
      handler: async ({ exchange }) => exchange.json(200, await budgetObject(deps, await asked(exchange), false)),
    }),

    guard({
      method: 'PUT',
      path: '/organizations/:org/budget',
      body: budgetBody,
      handler: async ({ exchange, actor, body }) => {
        const id = await asked(exchange);
        await setBudget(budgets, id, { ...body, mayStop: true }, actor);
        exchange.json(200, await budgetObject(deps, id, false));
      },
    }),
  ];
}
