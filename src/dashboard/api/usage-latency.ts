// GET …/usage/latency: percentiles of time to first token and of total duration, by model and API key.

import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import { SKETCH_ERROR } from '../../usage/latency-sketch.js';
import type { UsageLatency } from '../../shared/wire/usage.js';
import type { UsageStore } from '../../usage/usage-store.js';
import { readUsageQuery } from './usage-fields.js';
import { readingUsage } from './usage.js';
import type { Guard } from './guard.js';

/** Maximum number of rows, one per model and key. Queries with larger results are refused and need a filter. */
const MAX_ROWS = 10_000;

export interface UsageLatencyDeps {
  guard: Guard;
  usage: Pick<UsageStore, 'latencies'>;
}

export function usageLatencyRoutes({ guard, usage }: UsageLatencyDeps): Route[] {
  return [
    guard.member('viewer', {
      method: 'GET',
      path: '/organizations/:org/usage/latency',
      handler: async ({ exchange, organization }) => {
        const query = readUsageQuery(exchange.query, organization.id, null, Date.now());
        if (query.groupBy.includes('endpoint'))
          throw apiError('invalid_query_parameter', 'group_by must be model or api_key.', 'group_by');
        await readingUsage.run({ organization: organization.id }, 1, async () => {
          if (exchange.aborted) return;
          const groups = await usage.latencies(query);
          if (groups.length > MAX_ROWS)
            throw apiError(
              'invalid_query_parameter',
              `This range has more than ${MAX_ROWS} rows. Use fewer groups.`,
              'group_by',
            );
          const answer: UsageLatency = {
            object: 'list',
            relative_error: SKETCH_ERROR,
            data: groups.map(({ model, apiKeyId, answered, firstTokenMs, durationMs }) => ({
              model,
              api_key_id: apiKeyId,
              answered,
              first_token_ms: firstTokenMs,
              duration_ms: durationMs,
            })),
          };
          exchange.json(200, answer);
        });
      },
    }),
  ];
}
