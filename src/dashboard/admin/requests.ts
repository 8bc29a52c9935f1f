// GET …/requests: requests of all organizations or, if `organization` is given, of one. `none` selects requests whose
// API key was missing or unknown. Prompts and responses are omitted.

import { apiError } from '../../shared/errors.js';
import type { Config } from '../../config/settings.js';
import type { Route } from '../../http/exchange.js';
import type { RequestLog } from '../../usage/requests/request-log.js';
import { readPage } from '../api/paging.js';
import { readRequestQuery, requestDetail, requestPage, sendRequestsCsv } from '../api/request-fields.js';
import { inTurns, readingRequests } from '../api/requests.js';
import type { OperatorGuard } from './operator-guard.js';
import { NO_ORGANIZATION } from '../../shared/request-entry.js';
import { askedOrganization } from './organizations.js';

export interface RequestDeps {
  requestLog: Pick<RequestLog, 'list' | 'find'>;
  config: { readonly telemetry: { readonly traces: Pick<Config['telemetry']['traces'], 'view_url'> } };
}

export function requestRoutes(guard: OperatorGuard, { requestLog, config }: RequestDeps): Route[] {
  const { view_url: viewUrl } = config.telemetry.traces;
  return [
    guard({
      method: 'GET',
      path: '/requests',
      handler: async ({ exchange }) => {
        const { limit, after } = readPage(exchange.query);
        const query = readRequestQuery(exchange.query, chosenOrganization(exchange.query));
        await readingRequests.run({ organization: 'operators' }, 1, async () => {
          if (!exchange.aborted) exchange.json(200, requestPage(await requestLog.list(query, limit, after)));
        });
      },
    }),

    guard({
      method: 'GET',
      path: '/requests.csv',
      handler: async ({ exchange }) => {
        const query = readRequestQuery(exchange.query, chosenOrganization(exchange.query));
        await sendRequestsCsv(exchange, inTurns(requestLog, 'operators'), query);
      },
    }),

    guard({
      method: 'GET',
      path: '/requests/:id',
      handler: async ({ exchange }) => {
        const id = exchange.params['id'] as string;
        const row = await requestLog.find(null, id);
        if (row === null) throw apiError('resource_not_found', 'Request not found in the log.', 'id');
        const traceUrl = row.traceId == null ? null : (viewUrl?.replaceAll('{trace_id}', row.traceId) ?? null);
        exchange.json(200, { ...requestDetail(id, row, null), trace_url: traceUrl });
      },
    }),
  ];
}

const chosenOrganization = (query: URLSearchParams): string | null =>
  query.get('organization') === 'none' ? NO_ORGANIZATION : askedOrganization(query);
