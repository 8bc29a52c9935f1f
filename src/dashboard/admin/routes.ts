// All operator routes, built once for each way to authenticate.

import type { Route } from '../../http/exchange.js';
import { alertRoutes, type AlertDeps } from './alerts.js';
import { auditLogRoutes, type AuditLogDeps } from './audit-log.js';
import { diskRoutes, type DiskDeps } from './disk.js';
import { livePastRoutes, type LivePastDeps } from './live-past.js';
import { liveRoutes, type LiveDeps } from './live.js';
import { modelRoutes, type ModelDeps } from './models.js';
import type { OperatorGuard } from './operator-guard.js';
import { organizationPartRoutes, type OrganizationPartDeps } from './organization-parts.js';
import { organizationRoutes, type OrganizationDeps } from './organizations.js';
import { tunableRoutes, type TunableDeps } from './tunables.js';
import { tuningRoutes, type TuningDeps } from './tuning.js';
import { usageRoutes, type UsageDeps } from './usage.js';
import { promptCacheRoutes, type PromptCacheDeps } from './prompt-cache.js';
import { priceRoutes, type PriceDeps } from './prices.js';
import { requestRoutes, type RequestDeps } from './requests.js';
import { resetLinkRoutes, type ResetLinkDeps } from './reset-link.js';
import { userRoutes, type UserDeps } from './users.js';

/** The combined dependencies of all route files. */
export type OperatorRouteDeps = OrganizationDeps &
  OrganizationPartDeps &
  UserDeps &
  ResetLinkDeps &
  AuditLogDeps &
  ModelDeps &
  DiskDeps &
  UsageDeps &
  RequestDeps &
  PriceDeps &
  TunableDeps &
  TuningDeps &
  LiveDeps &
  LivePastDeps &
  AlertDeps &
  PromptCacheDeps;

export function operatorRoutes(guard: OperatorGuard, deps: OperatorRouteDeps): Route[] {
  return [
    ...organizationRoutes(guard, deps),
    ...organizationPartRoutes(guard, deps),
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
    ...alertRoutes(guard, deps),
    ...promptCacheRoutes(guard, deps),
  ];
}
