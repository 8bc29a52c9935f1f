// Dependencies of the operator routes. Each route file uses the subset it needs.

import type { Accounts } from '../../accounts/accounts.js';
import type { Directory } from '../../accounts/directory.js';
import type { OrganizationView } from '../../accounts/organizations.js';
import type { Config } from '../../config/settings.js';
import type { Actor } from '../../accounts/audit.js';
import type { FileFacts } from '../../engine/file-facts.js';
import type { Hub } from '../../hub/hub.js';
import type { DynamicModels } from './dynamic-models.js';
import type { ModelLifecycle } from '../../engine/model-lifecycle.js';
import type { Pulls } from './pulls.js';
import type { DashboardOrigin } from '../origin.js';
import type { ModelPool } from '../../engine/model-pool.js';
import type { ServedModels } from '../../generation/served-models.js';
import type { RequestLog } from '../../usage/requests/request-log.js';
import type { PriceStore } from '../../usage/price-store.js';
import type { UsageStore } from '../../usage/usage-store.js';
import type { LimitValues } from '../../shared/wire/dashboard.js';
import type { EngineTuning } from './engine-tuning.js';
import type { LiveHistory } from './live-history.js';
import type { LiveView } from './live-view.js';
import type { ModelSettings } from './model-settings.js';
import type { TuneRunStore } from './tune-runs.js';
import type { Tunings } from './tunings.js';

export interface OperatorDeps {
  config: Pick<Config, 'data_dir'>;
  origin: DashboardOrigin;
  usage: UsageStore;
  prices: PriceStore;
  requestLog: RequestLog;
  directory: Directory;
  accounts: Accounts;
  pool: ModelPool;
  models: ServedModels;
  modelSettings: ModelSettings;
  served: DynamicModels;
  lifecycle: Pick<ModelLifecycle, 'load'>;
  tuning: EngineTuning;
  tuneRuns: TuneRunStore;
  tunings: Tunings;
  live: LiveView;
  history: LiveHistory;
  hub: Hub;
  hubEndpoint: string;
  pulls: Pulls;
  fileFacts: FileFacts;
  /** Adds an entry to the server's audit log. */
  note(actor: Actor, action: string, target: string): Promise<void>;
  /** The organization's limits by model name. */
  organizationLimits(organization: OrganizationView): Record<string, LimitValues>;
  /** Tokens that each organization has used this month. */
  monthTokens(organizationIds: readonly string[]): Promise<number[]>;
}
