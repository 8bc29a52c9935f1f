// All routes of the dashboard API. Each file in this directory contains the routes for one subject.

import type { Route } from '../../http/exchange.js';
import { apiKeyRoutes, type ApiKeyDeps } from './api-keys.js';
import { budgetRoutes, type BudgetDeps } from './budget.js';
import { dashboardBatchRoutes, type DashboardBatchDeps } from './batches.js';
import { dashboardFileRoutes, type DashboardFileDeps } from './files.js';
import { dashboardConversationRoutes, type DashboardConversationDeps } from './conversations.js';
import { limitRoutes, type LimitDeps } from './limits.js';
import { modelRoutes, type ModelDeps } from './models.js';
import { auditLogRoutes, type AuditLogDeps } from './audit-log.js';
import { inviteRoutes, type InviteDeps } from './invites.js';
import { memberRoutes, type MemberDeps } from './members.js';
import { organizationRoutes, type OrganizationDeps } from './organizations.js';
import { passwordRoutes, type PasswordDeps } from './passwords.js';
import { oidcRoutes, type OidcDeps } from './oidc.js';
import { ownAccountRoutes, type OwnAccountDeps } from './own-account.js';
import { imagePlanRoutes, type ImagePlanDeps } from './image-plan.js';
import { partBudgetRoutes, type PartBudgetDeps } from './part-budgets.js';
import { playgroundRoutes, type PlaygroundDeps } from './playground.js';
import { dashboardAddressRoutes, type DashboardAddressDeps } from './dashboard-addresses.js';
import { serviceAccountRoutes, type ServiceAccountDeps } from './service-accounts.js';
import { requestRoutes, type RequestDeps } from './requests.js';
import { savedRoutes, type SavedDeps } from './saved.js';
import { secondFactorRoutes, type SecondFactorDeps } from './second-factor.js';
import { signInRoutes, type SignInDeps } from './sign-in.js';
import { signUpRoutes, type SignUpDeps } from './sign-up.js';
import { storedResponseRoutes, type StoredResponseDeps } from './stored-responses.js';
import { usageLatencyRoutes, type UsageLatencyDeps } from './usage-latency.js';
import { webhookRoutes, type WebhookDeps } from './webhooks.js';
import { usageRoutes, type UsageDeps } from './usage.js';

/** The combined dependencies of all route files. */
export type DashboardRouteDeps = SignUpDeps &
  SignInDeps &
  SecondFactorDeps &
  OidcDeps &
  OwnAccountDeps &
  PasswordDeps &
  OrganizationDeps &
  MemberDeps &
  ServiceAccountDeps &
  DashboardAddressDeps &
  InviteDeps &
  AuditLogDeps &
  PlaygroundDeps &
  SavedDeps &
  ImagePlanDeps &
  ApiKeyDeps &
  StoredResponseDeps &
  DashboardConversationDeps &
  DashboardFileDeps &
  DashboardBatchDeps &
  WebhookDeps &
  ModelDeps &
  LimitDeps &
  UsageDeps &
  UsageLatencyDeps &
  BudgetDeps &
  PartBudgetDeps &
  RequestDeps;

export function dashboardRoutes(deps: DashboardRouteDeps): Route[] {
  return [
    ...signUpRoutes(deps),
    ...signInRoutes(deps),
    ...secondFactorRoutes(deps),
    ...oidcRoutes(deps),
    ...ownAccountRoutes(deps),
    ...passwordRoutes(deps),
    ...organizationRoutes(deps),
    ...memberRoutes(deps),
    ...serviceAccountRoutes(deps),
    ...dashboardAddressRoutes(deps),
    ...inviteRoutes(deps),
    ...auditLogRoutes(deps),
    ...playgroundRoutes(deps),
    ...savedRoutes(deps),
    ...imagePlanRoutes(deps),
    ...apiKeyRoutes(deps),
    ...storedResponseRoutes(deps),
    ...dashboardConversationRoutes(deps),
    ...dashboardFileRoutes(deps),
    ...dashboardBatchRoutes(deps),
    ...webhookRoutes(deps),
    ...modelRoutes(deps),
    ...limitRoutes(deps),
    ...usageRoutes(deps),
    ...usageLatencyRoutes(deps),
    ...budgetRoutes(deps),
    ...partBudgetRoutes(deps),
    ...requestRoutes(deps),
  ];
}
