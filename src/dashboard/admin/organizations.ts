// Operator routes for organizations: list, limits, suspension. A change takes effect immediately on this thread, and
// within a second on other threads and in other processes.

import { z } from 'zod';
import type { OrganizationOverview, Organizations } from '../../accounts/organizations.js';
import type { ListPage } from '../../shared/wire/list.js';
import type { OperatorOrganization, OperatorOrganizationPatch } from '../../shared/wire/organizations.js';
import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import type { ModelPool } from '../../engine/model-pool.js';
import { limitsField, checkLimits } from '../api/key-fields.js';
import { organizationObject } from '../api/objects.js';
import { readPage } from '../api/paging.js';
import type { MonthTokens } from '../api/limits.js';
import type { OrganizationLimits } from '../api/objects.js';
import type { OperatorGuard } from './operator-guard.js';

const patchBody = z.object({
  status: z.enum(['active', 'suspended']).nullish(),
  /** Replaces all limits set before. */
  limits: limitsField.nullish(),
  monthly_token_cap: z.number().int().min(0).max(Number.MAX_SAFE_INTEGER).nullish(),
  /** Operators can only clear the list; the organization's admins set it. */
  dashboard_addresses: z.array(z.string()).max(0).nullish(),
}) satisfies z.ZodType<{ [K in keyof OperatorOrganizationPatch]: unknown }>;

interface DescribeDeps {
  organizationLimits: OrganizationLimits;
  monthTokens: MonthTokens;
}

export interface OrganizationDeps extends DescribeDeps {
  organizations: Organizations;
  pool: Pick<ModelPool, 'models'>;
}

export function organizationRoutes(guard: OperatorGuard, deps: OrganizationDeps): Route[] {
  const { organizations, pool } = deps;
  return [
    guard({
      method: 'GET',
      path: '/organizations',
      handler: async ({ exchange }) => {
        const { limit, after } = readPage(exchange.query);
        const { data, next } = await organizations.overviews(limit, after);
        const list: ListPage<OperatorOrganization> = {
          object: 'list',
          data: await describe(data, deps),
          has_more: next !== null,
          next,
        };
        exchange.json(200, list);
      },
    }),

    guard({
      method: 'GET',
      path: '/organizations/:org',
      handler: async ({ exchange }) =>
        exchange.json(
          200,
          await describeOne(known(await organizations.overview(exchange.params['org'] as string)), deps),
        ),
    }),

    guard({
      method: 'PATCH',
      path: '/organizations/:org',
      body: patchBody,
      handler: async ({ exchange, actor, body }) => {
        checkLimits(
          body.limits,
          pool.models().map(({ model }) => model.id),
        );
        const change = {
          status: body.status ?? undefined,
          limits: body.limits ?? undefined,
          monthlyTokenCap: body.monthly_token_cap,
          dashboardAddresses: body.dashboard_addresses ?? undefined,
        };
        exchange.json(
          200,
          await describeOne(known(await organizations.change(exchange.params['org'] as string, change, actor)), deps),
        );
      },
    }),
  ];
}

/**
 * The `organization` query parameter, or null if it is absent: the ID of an organization, which may have been deleted.
 * Throws ApiError 400.
 */
export function askedOrganization(query: URLSearchParams): string | null {
  const id = query.get('organization');
  if (id !== null && !/^org_[0-9A-Za-z]{24}$/.test(id))
    throw apiError('invalid_query_parameter', 'organization must be an organization ID.', 'organization');
  return id;
}

function known(organization: OrganizationOverview | null): OrganizationOverview {
  if (organization === null) throw apiError('resource_not_found', 'Organization not found.', 'org');
  return organization;
}

const describeOne = async (organization: OrganizationOverview, deps: DescribeDeps): Promise<OperatorOrganization> =>
  (await describe([organization], deps))[0] as OperatorOrganization;

async function describe(
  organizations: readonly OrganizationOverview[],
  { organizationLimits, monthTokens }: DescribeDeps,
): Promise<OperatorOrganization[]> {
  const tokens = await monthTokens(organizations.map(({ id }) => id));
  return organizations.map((organization, at) => {
    const {
      members,
      activeKeys,
      settings: { limits, monthlyTokenCap },
    } = organization;
    return {
      ...organizationObject(organization, organizationLimits(organization)),
      members,
      active_keys: activeKeys,
      overrides: limits as OperatorOrganization['overrides'],
      monthly_token_cap: monthlyTokenCap,
      month_tokens: tokens[at] ?? 0,
    };
  });
}
