// The dashboard: its pages and the API they call.

import { MfaChallenges } from '../../accounts/mfa-challenges.js';
import { OidcProvider } from '../../accounts/oidc/provider.js';
import { monthName, monthNumber } from '../../admission/month-use.js';
import { AccountMailer } from '../../dashboard/api/account-mailer.js';
import type { Guard } from '../../dashboard/api/guard.js';
import type { MonthTokens } from '../../dashboard/api/limits.js';
import type { OrganizationLimits } from '../../dashboard/api/objects.js';
import { dashboardRoutes } from '../../dashboard/api/routes.js';
import type { DashboardRouteDeps } from '../../dashboard/api/routes.js';
import { SessionGuard } from '../../dashboard/api/session-guard.js';
import { pageRoutes } from '../../dashboard/pages/routes.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Limits } from './limits.js';
import type { Background } from './background.js';
import type { Batches } from './batches.js';
import type { Budgets } from './budgets.js';
import type { Engines } from './engines.js';
import type { Generation } from './generation.js';
import type { Mail } from './mail.js';
import type { Models } from './models.js';
import type { Secrets } from './secrets.js';
import type { Storage } from './storage.js';

export interface Dashboard extends Module {
  readonly guard: Guard;
  readonly organizationLimits: OrganizationLimits;
  readonly monthTokens: MonthTokens;
}

export interface DashboardContext extends AppContext {
  storage: Storage;
  background: Background;
  budgets: Budgets;
  mail: Mail;
  engines: Engines;
  models: Models;
  limits: Limits;
  secrets: Secrets;
  generation: Generation;
  batches: Batches;
}

export function openDashboard({
  config,
  telemetry: { log },
  shutdown,
  storage,
  background: { background },
  budgets: { budgetGate },
  mail: { mailer, origin },
  engines: { pool },
  models: { models },
  limits: { admission },
  secrets: { box, codes },
  generation: { chat },
  batches: { wake: wakeBatches },
}: DashboardContext): Promise<Dashboard> {
  return openModule(() => {
    const {
      directory,
      usage,
      requests: requestLog,
      prices,
      budgets,
      saved,
      responses,
      conversations,
      webhooks,
      files,
      batches,
      organizationData,
    } = storage;
    const { signIns, signUps, identities, ownAccount, secondFactors, attempts, now } = directory;
    const { users, organizations, members, serviceAccounts, invites, apiKeys, audit } = directory;
    const organizationLimits: OrganizationLimits = ({ id, settings: { limits } }) =>
      Object.fromEntries(
        pool.models().map(({ model }) => [model.id, admission.limitsOf({ organizationId: id, limits }, model.id)]),
      );
    const monthTokens: MonthTokens = (organizationIds) =>
      usage.monthTokens(organizationIds, monthName(monthNumber(Date.now())));
    const guard = new SessionGuard(directory, origin, config.accounts.operator_second_factor === 'required');
    const deps: DashboardRouteDeps = {
      config,
      log,
      now,
      guard,
      origin,
      signIns,
      signUps,
      identities,
      ownAccount,
      secondFactors,
      attempts,
      users,
      organizations,
      members,
      serviceAccounts,
      invites,
      apiKeys,
      audit,
      mailer: new AccountMailer(signIns, mailer, origin.fixed, (err) => log.error({ err }, 'cannot compose an email')),
      codes,
      box,
      oidc: OidcProvider.of(config),
      tickets: new MfaChallenges(box, users, now),
      usage,
      prices,
      budgets,
      budgetGate,
      saved,
      requestLog,
      organizationData,
      responses,
      conversations,
      webhooks,
      files,
      batches,
      wakeBatches,
      background,
      admission,
      pool,
      models,
      chat,
      organizationLimits,
      monthTokens,
      draining: () => shutdown.draining,
    };
    return {
      guard,
      organizationLimits,
      monthTokens,
      routes: config.dashboard.enabled ? [...pageRoutes(), ...dashboardRoutes(deps)] : [],
    };
  });
}
