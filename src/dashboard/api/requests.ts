// GET …/requests: an organization's requests from the last few days, and the details of one request.

import { apiError } from '../../shared/errors.js';
import { FairSlots } from '../../generation/fair-slots.js';
import type { Route } from '../../http/exchange.js';
import { shareOf } from '../../shared/thread-count.js';
import { ROLES } from '../../shared/wire/organizations.js';
import type { RequestLog } from '../../usage/requests/request-log.js';
import { readPage } from './paging.js';
import { readRequestQuery, requestDetail, requestPage, sendRequestsCsv } from './request-fields.js';
import type { Guard } from './guard.js';

const LIST = '/organizations/:org/requests';

/**
 * A selective filter may scan thousands of entries, so only a few such reads run at a time, shared fairly between
 * organizations.
 */
export const readingRequests = new FairSlots(shareOf(2), 'pages of the request log', 64);

export interface RequestDeps {
  guard: Guard;
  requestLog: RequestLog;
}

export function requestRoutes({ guard, requestLog }: RequestDeps): Route[] {
  return [
    guard.member('viewer', {
      method: 'GET',
      path: LIST,
      handler: async ({ exchange, organization }) => {
        const { limit, after } = readPage(exchange.query);
        const query = readRequestQuery(exchange.query, organization.id);
        await readingRequests.run({ organization: organization.id }, 1, async () => {
          if (!exchange.aborted) exchange.json(200, requestPage(await requestLog.list(query, limit, after)));
        });
      },
    }),

    guard.member('viewer', {
      method: 'GET',
      path: `${LIST}.csv`,
      handler: async ({ exchange, organization }) => {
        const query = readRequestQuery(exchange.query, organization.id);
        await readingRequests.run({ organization: organization.id }, 1, () =>
          sendRequestsCsv(exchange, requestLog, query),
        );
      },
    }),

    guard.member('viewer', {
      method: 'GET',
      path: `${LIST}/:id`,
      handler: async ({ exchange, organization, role }) => {
        const id = exchange.params['id'] as string;
        const row = await requestLog.find(organization.id, id);
        if (row === null) throw apiError('resource_not_found', 'Request not found in the log.', 'id');
        const text =
          row.hasText && ROLES.indexOf(role) >= ROLES.indexOf('admin')
            ? await requestLog.text(organization.id, id)
            : null;
        exchange.json(200, requestDetail(id, row, text));
      },
    }),
  ];
}
