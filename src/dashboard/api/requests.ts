// GET …/requests: an organization's requests from the last few days, and the details of one request.

import { apiError } from '../../shared/errors.js';
import { FairSlots } from '../../generation/fair-slots.js';
import type { Route } from '../../http/exchange.js';
import { shareOf } from '../../shared/thread-count.js';
import { ROLES, type Role } from '../../shared/wire/organizations.js';
import type { LoggedRow, RequestLog } from '../../usage/requests/request-log.js';
import { readPage } from './paging.js';
import { readRequestQuery, requestDetail, requestPage, sendRequestsCsv } from './request-fields.js';
import type { Guard } from './guard.js';

const LIST = '/organizations/:org/requests';

/**
 * A selective filter may scan thousands of entries, so only a few such reads run at a time, shared fairly between
 * organizations.
 */
export const readingRequests = new FairSlots(shareOf(2), 'pages of the request log', 64);

/**
 * The request log for a download that reads many pages. Each page waits its turn, so that other readers are served in
 * between.
 */
export const inTurns = (requestLog: Pick<RequestLog, 'list'>, organization: string): Pick<RequestLog, 'list'> => ({
  list: (...page) => readingRequests.run({ organization }, 1, () => requestLog.list(...page)),
});

const isAdmin = (role: Role): boolean => ROLES.indexOf(role) >= ROLES.indexOf('admin');

/** Client addresses and user agents are shown only to admins, as in the audit log. */
const shownTo = (role: Role, row: LoggedRow): LoggedRow => (isAdmin(role) ? row : { ...row, client: null });

/** The request log, restricted to the fields that this role may read. */
const logFor = (role: Role, requestLog: Pick<RequestLog, 'list'>): Pick<RequestLog, 'list'> => ({
  list: async (...page) => {
    const { rows, next } = await requestLog.list(...page);
    return { rows: rows.map(({ id, row }) => ({ id, row: shownTo(role, row) })), next };
  },
});

export interface RequestDeps {
  guard: Guard;
  requestLog: RequestLog;
}

export function requestRoutes({ guard, requestLog }: RequestDeps): Route[] {
  return [
    guard.member('viewer', {
      method: 'GET',
      path: LIST,
      handler: async ({ exchange, organization, role }) => {
        const { limit, after } = readPage(exchange.query);
        const query = readRequestQuery(exchange.query, organization.id);
        await readingRequests.run({ organization: organization.id }, 1, async () => {
          if (!exchange.aborted)
            exchange.json(200, requestPage(await logFor(role, requestLog).list(query, limit, after)));
        });
      },
    }),

    guard.member('viewer', {
      method: 'GET',
      path: `${LIST}.csv`,
      handler: ({ exchange, organization: { id }, role }) =>
        sendRequestsCsv(exchange, inTurns(logFor(role, requestLog), id), readRequestQuery(exchange.query, id)),
    }),

    guard.member('viewer', {
      method: 'GET',
      path: `${LIST}/:id`,
      handler: async ({ exchange, organization, role }) => {
        const id = exchange.params['id'] as string;
        const row = await requestLog.find(organization.id, id);
        if (row === null) throw apiError('resource_not_found', 'Request not found in the log.', 'id');
        const text = row.hasText && isAdmin(role) ? await requestLog.text(organization.id, id) : null;
        exchange.json(200, requestDetail(id, shownTo(role, row), text));
      },
    }),
  ];
}
