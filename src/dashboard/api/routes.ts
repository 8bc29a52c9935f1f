// Every route of the dashboard API. Each file beside this one has the routes of one subject.

import type { Accounts } from '../../accounts/accounts.js';
import type { Directory } from '../../accounts/directory.js';
import type { Organization } from '../../accounts/keys.js';
import type { Admission } from '../../admission/admission.js';
import type { Config } from '../../config.js';
import type { ModelPool } from '../../engine/model-pool.js';
import type { ServedModels } from '../../generation/served-models.js';
import type { Route } from '../../http/exchange.js';
import type { EngineTuning } from '../../operator/engine-tuning.js';
import type { LiveView } from '../../operator/live-view.js';
import { sessionOperators } from '../../operator/operator-guard.js';
import { operatorRoutes } from '../../operator/routes.js';
import type { ModelSettings } from '../../operator/model-settings.js';
import type { BackgroundResponses } from '../../protocol/responses/background.js';
import type { ResponseStore } from '../../storage/response-store.js';
import type { Store } from '../../storage/store.js';
import type { Telemetry } from '../../telemetry/types.js';
import type { ThreadBus } from '../../threads/bus.js';
import type { DashboardOrigin } from '../origin.js';
import type { LimitValues } from '../wire.js';
import { apiKeyRoutes } from './api-keys.js';
import type { Guard } from './guard.js';
import type { Letters } from './letters.js';
import { limitRoutes } from './limits.js';
import { modelRoutes } from './models.js';
import { auditLogRoutes } from './audit-log.js';
import { inviteRoutes } from './invites.js';
import { memberRoutes } from './members.js';
import { organizationRoutes } from './organizations.js';
import { passwordRoutes } from './passwords.js';
import { playgroundRoutes } from './playground.js';
import { signInRoutes } from './sign-in.js';
import { signUpRoutes } from './sign-up.js';
import { storedResponseRoutes } from './stored-responses.js';
import { usageRoutes } from './usage.js';

/** What dashboard routes are made of; each file takes what it needs of it. */
export interface DashboardDeps {
  config: Config;
  guard: Guard;
  origin: DashboardOrigin;
  store: Store;
  directory: Directory;
  accounts: Accounts;
  admission: Admission;
  responses: ResponseStore;
  background: BackgroundResponses;
  pool: ModelPool;
  models: ServedModels;
  modelSettings: ModelSettings;
  telemetry: Telemetry;
  bus: ThreadBus;
  tuning: EngineTuning;
  live: LiveView;
  /** POST /v1/chat/completions, for the playground. */
  chat: Route;
  draining(): boolean;
  letters: Letters;
  /** By model name: what holds for the organization. */
  organizationLimits(organization: Organization): Record<string, LimitValues>;
  /** What it has used this month, in tokens. */
  monthTokens(organizationId: string): number;
}

export function dashboardRoutes(deps: DashboardDeps): Route[] {
  return [
    ...signUpRoutes(deps),
    ...signInRoutes(deps),
    ...passwordRoutes(deps),
    ...organizationRoutes(deps),
    ...memberRoutes(deps),
    ...inviteRoutes(deps),
    ...auditLogRoutes(deps),
    ...playgroundRoutes(deps),
    ...apiKeyRoutes(deps),
    ...storedResponseRoutes(deps),
    ...modelRoutes(deps),
    ...limitRoutes(deps),
    ...usageRoutes(deps),
    ...operatorRoutes(sessionOperators(deps.guard), deps),
  ];
}
