// Dependencies of the dashboard API routes. Each route file uses the subset it needs.

import type { Accounts } from '../../accounts/accounts.js';
import type { SecondFactorCodes } from '../../accounts/second-factor-codes.js';
import type { MfaChallenges } from '../../accounts/mfa-challenges.js';
import type { OrganizationDataOwner } from '../../accounts/delete-organization.js';
import type { Directory } from '../../accounts/directory.js';
import type { OrganizationView } from '../../accounts/organizations.js';
import type { Admission } from '../../admission/admission.js';
import type { Config } from '../../config/settings.js';
import type { ModelPool } from '../../engine/model-pool.js';
import type { ServedModels } from '../../generation/served-models.js';
import type { Route } from '../../http/exchange.js';
import type { OidcProvider } from '../../accounts/oidc/provider.js';
import type { BackgroundResponses } from '../../protocol/responses/background.js';
import type { RequestLog } from '../../usage/requests/request-log.js';
import type { SecretBox } from '../../accounts/sealing/secret-box.js';
import type { SavedStore } from '../saved/saved-store.js';
import type { ResponseStore } from '../../storage/response-store.js';
import type { Telemetry } from '../../telemetry/types.js';
import type { BudgetStore } from '../../usage/budget-store.js';
import type { PriceStore } from '../../usage/price-store.js';
import type { UsageStore } from '../../usage/usage-store.js';
import type { DashboardOrigin } from '../origin.js';
import type { LimitValues } from '../../shared/wire/dashboard.js';
import type { Guard } from './guard.js';
import type { AccountMailer } from './account-mailer.js';

export interface DashboardDeps {
  config: Pick<Config, 'accounts' | 'http' | 'oidc' | 'webhooks'>;
  guard: Guard;
  origin: DashboardOrigin;
  usage: UsageStore;
  prices: PriceStore;
  budgets: BudgetStore;
  saved: SavedStore;
  requestLog: RequestLog;
  /** Data that is erased together with an organization. */
  stored: OrganizationDataOwner;
  directory: Directory;
  accounts: Accounts;
  admission: Admission;
  responses: ResponseStore;
  background: BackgroundResponses;
  pool: ModelPool;
  models: ServedModels;
  telemetry: Pick<Telemetry, 'log'>;
  /** POST /v1/chat/completions, called by the playground. */
  chat: Route;
  draining(): boolean;
  mailer: AccountMailer;
  codes: SecondFactorCodes;
  box: SecretBox;
  /** Null: no provider is configured. */
  oidc: OidcProvider | null;
  tickets: MfaChallenges;
  /** The organization's limits by model name. */
  organizationLimits(organization: OrganizationView): Record<string, LimitValues>;
  /** Tokens that each organization has used this month. */
  monthTokens(organizationIds: readonly string[]): Promise<number[]>;
}
