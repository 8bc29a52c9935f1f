// GET …/requests: requests of all organizations or, if `organization` is given, of one. Prompts and responses are
// omitted.

import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import type { RequestLog } from '../../usage/requests/request-log.js';
import { readPage } from '../api/paging.js';
import { readRequestQuery, requestDetail, requestPage } from '../api/request-fields.js';
import { readingRequests } from '../api/requests.js';
import type { OperatorGuard } from './operator-guard.js';
import { askedOrganization } from './organizations.js';

export interface RequestDeps {
  requestLog: Pick<RequestLog, 'list' | 'find'>;
}

export function requestRoutes(guard: OperatorGuard, { requestLog }: RequestDeps): Route[] {
  return [
    guard({
      method: 'GET',
      path: '/requests',
      handler: async ({ exchange }) => {
        const { limit, after } = readPage(exchange.query);
        const query = readRequestQuery(exchange.query, askedOrganization(exchange.query));
        await readingRequests.run({ organization: 'operators' }, 1, async () => {
          if (!exchange.aborted) exchange.json(200, requestPage(await requestLog.list(query, limit, after)));
        });
      },
    }),

    guard({
      method: 'GET',
      path: '/requests/:id',
      handler: async ({ exchange }) => {
        const id = exchange.params['id'] as string;
        const row = await requestLog.find(null, id);
        if (row === null) throw apiError('resource_not_found', 'Request not found in the log.', 'id');
        exchange.json(200, requestDetail(id, row, null));
      },
    }),
  ];
}
