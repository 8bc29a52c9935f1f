// GET /audit-log: changes to the server (users, models, settings) or, with `organization`, to one organization.

import { readPage } from '../api/paging.js';
import type { AuditEntry, ListPage } from '../../shared/wire/dashboard.js';
import type { Route } from '../../http/exchange.js';
import type { OperatorGuard } from './operator-guard.js';
import { askedOrganization } from './organizations.js';
import type { OperatorDeps } from './deps.js';

export function auditLogRoutes(guard: OperatorGuard, { directory }: Pick<OperatorDeps, 'directory'>): Route[] {
  return [
    guard({
      method: 'GET',
      path: '/audit-log',
      handler: async ({ exchange }) => {
        const { limit, after } = readPage(exchange.query);
        // The log of a deleted organization stays readable here.
        const { data, next } = await directory.audit.list(askedOrganization(exchange.query), limit, after);
        const page: ListPage<AuditEntry> = { object: 'list', data, has_more: next !== null, next };
        exchange.json(200, page);
      },
    }),
  ];
}
