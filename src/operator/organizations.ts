// Operators and organizations: who there is, what they may use, and whether they may at all. What is changed
// acts at once on this thread, within a second on the others and in other processes.

import { z } from 'zod';
import type { Organization } from '../accounts/keys.js';
import { limitsField, checkLimits } from '../dashboard/api/key-fields.js';
import { organizationObject } from '../dashboard/api/objects.js';
import { readPage } from '../dashboard/api/paging.js';
import type { ListPage, OperatorOrganization, OperatorOrganizationPatch } from '../wire/dashboard.js';
import { apiError } from '../errors.js';
import type { Route } from '../http/exchange.js';
import type { OperatorGuard } from './operator-guard.js';
import type { OperatorDeps } from './deps.js';

type Deps = Pick<OperatorDeps, 'accounts' | 'directory' | 'pool' | 'organizationLimits' | 'monthTokens'>;

const patchBody = z.object({
  status: z.enum(['active', 'suspended']).nullish(),
  /** Replaces what was set before, whole. */
  limits: limitsField.nullish(),
  monthly_token_cap: z.number().int().min(0).max(Number.MAX_SAFE_INTEGER).nullish(),
}) satisfies z.ZodType<{ [K in keyof OperatorOrganizationPatch]: unknown }>;

export function organizationRoutes(guard: OperatorGuard, deps: Deps): Route[] {
  const { accounts, pool } = deps;
  return [
    guard({
      method: 'GET', path: '/organizations',
      serve: ({ exchange }) => {
        const { limit, after } = readPage(exchange.query);
        const { data, next } = accounts.organizationsPage(limit, after);
        const list: ListPage<OperatorOrganization> = { object: 'list', data: data.map((one) => describe(one, deps)), has_more: next !== null, next };
        exchange.json(200, list);
      },
    }),

    guard({
      method: 'GET', path: '/organizations/:org',
      serve: ({ exchange }) => exchange.json(200, describe(known(accounts.organization(exchange.params['org'] as string)), deps)),
    }),

    guard({
      method: 'PATCH', path: '/organizations/:org', body: patchBody,
      serve: async ({ exchange, actor, body }) => {
        checkLimits(body.limits, pool.list().map(({ model }) => model.id));
        const change = { status: body.status ?? undefined, limits: body.limits ?? undefined, monthlyTokenCap: body.monthly_token_cap };
        exchange.json(200, describe(known(await accounts.changeOrganization(exchange.params['org'] as string, change, actor)), deps));
      },
    }),
  ];
}

/** `organization` of a query: the id of one, which may be deleted by now. Null: not given. Throws ApiError 400. */
export function askedOrganization(query: URLSearchParams): string | null {
  const id = query.get('organization');
  if (id !== null && !/^org_[0-9A-Za-z]{24}$/.test(id)) throw apiError('invalid_query_parameter', 'organization must be the id of one.', 'organization');
  return id;
}

function known(organization: Organization | null | undefined): Organization {
  if (organization == null) throw apiError('resource_not_found', 'There is no such organization.', 'org');
  return organization;
}

function describe(organization: Organization, { accounts, directory, organizationLimits, monthTokens }: Deps): OperatorOrganization {
  const { limits, monthlyTokenCap } = accounts.settings.get(organization.id);
  return {
    ...organizationObject(organization, organizationLimits(organization)),
    members: directory.memberships.count(organization.id), active_keys: accounts.keys.activeCount(organization.id),
    overrides: limits as OperatorOrganization['overrides'], monthly_token_cap: monthlyTokenCap, month_tokens: monthTokens(organization.id),
  };
}
