// What the operator routes are made of. Each file takes what it needs of it.

import type { Accounts } from '../accounts/accounts.js';
import type { Directory } from '../accounts/directory.js';
import type { Organization } from '../accounts/keys.js';
import type { Config } from '../config/settings.js';
import type { DashboardOrigin } from '../dashboard/origin.js';
import type { ModelPool } from '../engine/model-pool.js';
import type { ServedModels } from '../generation/served-models.js';
import type { Store } from '../storage/store.js';
import type { LimitValues } from '../wire/dashboard.js';
import type { EngineTuning } from './engine-tuning.js';
import type { LiveView } from './live-view.js';
import type { ModelSettings } from './model-settings.js';

export interface OperatorDeps {
  config: Pick<Config, 'data_dir'>;
  origin: DashboardOrigin;
  store: Store;
  directory: Directory;
  accounts: Accounts;
  pool: ModelPool;
  models: ServedModels;
  modelSettings: ModelSettings;
  tuning: EngineTuning;
  live: LiveView;
  /** By model name: what holds for the organization. */
  organizationLimits(organization: Organization): Record<string, LimitValues>;
  /** What it has used this month, in tokens. */
  monthTokens(organizationId: string): number;
}
