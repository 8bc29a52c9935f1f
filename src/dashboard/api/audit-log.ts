// GET …/audit-log, …/audit-log.csv: the changes made to an organization, and who made them.

import type { Route } from '../../http/exchange.js';
import type { ListPage } from '../../shared/wire/list.js';
import type { AuditEntry } from '../../shared/wire/organizations.js';
import type { AuditLog } from '../../accounts/audit.js';
import { readAuditFilter, sendAuditCsv } from './audit-fields.js';
import { readPage } from './paging.js';
import type { Guard } from './guard.js';

export interface AuditLogDeps {
  guard: Guard;
  audit: AuditLog;
}

export function auditLogRoutes({ guard, audit }: AuditLogDeps): Route[] {
  return [
    guard.member('admin', {
      method: 'GET',
      path: '/organizations/:org/audit-log',
      handler: async ({ exchange, organization }) => {
        const { limit, after } = readPage(exchange.query);
        const { data, next } = await audit.list(organization.id, limit, after, readAuditFilter(exchange.query));
        const page: ListPage<AuditEntry> = { object: 'list', data, has_more: next !== null, next };
        exchange.json(200, page);
      },
    }),

    guard.member('admin', {
      method: 'GET',
      path: '/organizations/:org/audit-log.csv',
      handler: ({ exchange, organization }) =>
        sendAuditCsv(exchange, audit, organization.id, readAuditFilter(exchange.query)),
    }),
  ];
}
