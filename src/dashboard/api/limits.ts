// GET …/limits: an organization's limits per model and their current usage.

import { nextMonth } from '../../admission/month-use.js';
import type { BucketState } from '../../admission/counters.js';
import type { Route } from '../../http/exchange.js';
import type { BucketUse, LimitsObject } from '../../shared/wire/limits.js';
import type { Admission } from '../../admission/admission.js';
import type { ModelPool } from '../../engine/model-pool.js';
import type { Guard } from './guard.js';

/** The number of tokens that each organization has used this month. */
export type MonthTokens = (organizationIds: readonly string[]) => Promise<number[]>;

export interface LimitDeps {
  guard: Guard;
  admission: Pick<Admission, 'standing' | 'limitsOf'>;
  pool: Pick<ModelPool, 'models'>;
  monthTokens: MonthTokens;
}

export function limitRoutes({ guard, admission, pool, monthTokens }: LimitDeps): Route[] {
  return [
    guard.member('viewer', {
      method: 'GET',
      path: '/organizations/:org/limits',
      handler: async ({
        exchange,
        organization: {
          id,
          settings: { limits, monthlyTokenCap },
        },
      }) => {
        const [used = 0] = await monthTokens([id]);
        const answer: LimitsObject = {
          object: 'limits',
          models: await Promise.all(
            pool.models().map(async ({ model }) => {
              const {
                state: { requests, tokens },
                unfinished,
              } = await admission.standing({ organizationId: id, limits }, model.id);
              const { concurrency } = admission.limitsOf({ organizationId: id, limits }, model.id);
              return {
                model: model.id,
                requests: bucketUse(requests),
                tokens: bucketUse(tokens),
                concurrency: { limit: concurrency, in_use: unfinished },
              };
            }),
          ),
          month: { tokens: used, cap: monthlyTokenCap, resets_at: nextMonth(Date.now()).toISOString() },
        };
        exchange.json(200, answer);
      },
    }),
  ];
}

const bucketUse = (state: BucketState | null): BucketUse =>
  state === null
    ? { limit: null, remaining: null, reset_ms: null }
    : { limit: state.limit, remaining: state.remaining, reset_ms: Math.ceil(state.resetMs) };
