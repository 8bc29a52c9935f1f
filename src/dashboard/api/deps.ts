// What the dashboard's routes are made of: the service hands it over whole, and each route says which part it takes.

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
import type { ModelSettings } from '../../operator/model-settings.js';
import type { BackgroundResponses } from '../../protocol/responses/background.js';
import type { ResponseStore } from '../../storage/response-store.js';
import type { Store } from '../../storage/store.js';
import type { Telemetry } from '../../telemetry/types.js';
import type { ThreadBus } from '../../shared/bus.js';
import type { DashboardOrigin } from '../origin.js';
import type { LimitValues } from '../../wire/dashboard.js';
import type { Guard } from './guard.js';
import type { Letters } from './letters.js';

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
