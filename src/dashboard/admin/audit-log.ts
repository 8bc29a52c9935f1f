// GET /audit-log: lists changes to the server (users, models, settings) or, if `organization` is given, to one
// organization.

import type { ListPage } from '../../shared/wire/list.js';
import type { AuditEntry } from '../../shared/wire/organizations.js';
import type { Route } from '../../http/exchange.js';
import type { AuditLog } from '../../accounts/audit.js';
import { readAuditFilter, sendAuditCsv } from '../api/audit-fields.js';
import { readPage } from '../api/paging.js';
import type { OperatorGuard } from './operator-guard.js';
import { askedOrganization } from './organizations.js';

export interface AuditLogDeps {
  audit: Pick<AuditLog, 'list'>;
}

export function auditLogRoutes(guard: OperatorGuard, { audit }: AuditLogDeps): Route[] {
  return [
    guard({
      method: 'GET',
      path: '/audit-log',
      handler: async ({ exchange }) => {
        const { limit, after } = readPage(exchange.query);
        // Operators can still read a deleted organization's log.
        const { data, next } = await audit.list(
          askedOrganization(exchange.query),
          limit,
          after,
          readAuditFilter(exchange.query),
        );
        const page: ListPage<AuditEntry> = { object: 'list', data, has_more: next !== null, next };
        exchange.json(200, page);
      },
    }),

    guard({
      method: 'GET',
      path: '/audit-log.csv',
      handler: ({ exchange }) =>
        sendAuditCsv(exchange, audit, askedOrganization(exchange.query), readAuditFilter(exchange.query)),
    }),
  ];
}
