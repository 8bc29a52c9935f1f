// All operator routes, once for each way to authenticate.

import type { Route } from '../../http/exchange.js';
import { auditLogRoutes } from './audit-log.js';
import type { OperatorDeps } from './deps.js';
import { diskRoutes } from './disk.js';
import { livePastRoutes } from './live-past.js';
import { liveRoutes } from './live.js';
import { modelRoutes } from './models.js';
import type { OperatorGuard } from './operator-guard.js';
import { organizationRoutes } from './organizations.js';
import { tunableRoutes } from './tunables.js';
import { tuningRoutes } from './tuning.js';
import { usageRoutes } from './usage.js';
import { priceRoutes } from './prices.js';
import { requestRoutes } from './requests.js';
import { resetLinkRoutes } from './reset-link.js';
import { userRoutes } from './users.js';

export function operatorRoutes(guard: OperatorGuard, deps: OperatorDeps): Route[] {
  return [
    ...organizationRoutes(guard, deps),
    ...userRoutes(guard, deps),
    ...resetLinkRoutes(guard, deps),
    ...auditLogRoutes(guard, deps),
    ...modelRoutes(guard, deps),
    ...diskRoutes(guard, deps),
    ...usageRoutes(guard, deps),
    ...requestRoutes(guard, deps),
    ...priceRoutes(guard, deps),
    ...tunableRoutes(guard, deps),
    ...tuningRoutes(guard, deps),
    ...liveRoutes(guard, deps),
    ...livePastRoutes(guard, deps),
  ];
}
