// All routes of the dashboard API. Each file in this folder has the routes of one subject.

import type { Route } from '../../http/exchange.js';
import { apiKeyRoutes } from './api-keys.js';
import { budgetRoutes } from './budget.js';
import { limitRoutes } from './limits.js';
import { modelRoutes } from './models.js';
import { auditLogRoutes } from './audit-log.js';
import { inviteRoutes } from './invites.js';
import { memberRoutes } from './members.js';
import { organizationRoutes } from './organizations.js';
import { passwordRoutes } from './passwords.js';
import { oidcRoutes } from './oidc.js';
import { ownAccountRoutes } from './own-account.js';
import { imagePlanRoutes } from './image-plan.js';
import { playgroundRoutes } from './playground.js';
import { requestRoutes } from './requests.js';
import { savedRoutes } from './saved.js';
import { secondFactorRoutes } from './second-factor.js';
import { signInRoutes } from './sign-in.js';
import { signUpRoutes } from './sign-up.js';
import { storedResponseRoutes } from './stored-responses.js';
import { usageLatencyRoutes } from './usage-latency.js';
import { usageRoutes } from './usage.js';
import type { DashboardDeps } from './deps.js';

export function dashboardRoutes(deps: DashboardDeps): Route[] {
  return [
    ...signUpRoutes(deps),
    ...signInRoutes(deps),
    ...secondFactorRoutes(deps),
    ...oidcRoutes(deps),
    ...ownAccountRoutes(deps),
    ...passwordRoutes(deps),
    ...organizationRoutes(deps),
    ...memberRoutes(deps),
    ...inviteRoutes(deps),
    ...auditLogRoutes(deps),
    ...playgroundRoutes(deps),
    ...savedRoutes(deps),
    ...imagePlanRoutes(deps),
    ...apiKeyRoutes(deps),
    ...storedResponseRoutes(deps),
    ...modelRoutes(deps),
    ...limitRoutes(deps),
    ...usageRoutes(deps),
    ...usageLatencyRoutes(deps),
    ...budgetRoutes(deps),
    ...requestRoutes(deps),
  ];
}
