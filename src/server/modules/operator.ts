// The operator API, which also runs downloads and tuning. It is served to operators' sessions at the dashboard's
// address, and to clients with the operator token on a separate listener.

import { sessionOperators, tokenOperators } from '../../dashboard/admin/operator-guard.js';
import { Pulls } from '../../dashboard/admin/pulls.js';
import { operatorRoutes } from '../../dashboard/admin/routes.js';
import type { OperatorRouteDeps } from '../../dashboard/admin/routes.js';
import { Tunings } from '../../dashboard/admin/tunings.js';
import { FileFacts } from '../../engine/file-facts.js';
import { HttpServer } from '../../http/app.js';
import { readServerRecord } from '../../storage/data-dir-lock.js';
import { loadOptions } from '../engine-settings.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Alerts } from './alerts.js';
import type { Authentication } from './authentication.js';
import type { Limits } from './limits.js';
import type { Dashboard } from './dashboard.js';
import type { DynamicModelsModule } from './dynamic-models.js';
import type { Engines } from './engines.js';
import type { Live } from './live.js';
import type { Mail } from './mail.js';
import type { Models } from './models.js';
import type { PromptCacheModule } from './prompt-cache.js';
import type { Storage } from './storage.js';

export interface Operator extends Module {
  readonly tunings: Tunings;
  readonly pulls: Pulls;
  readonly fileFacts: FileFacts;
  /**
   * The listener for clients with the operator token. Null if no token is set, and on all threads except the primary
   * one.
   */
  readonly admin: HttpServer | null;
}

export interface OperatorContext extends AppContext {
  storage: Storage;
  mail: Mail;
  alerts: Alerts;
  authentication: Authentication;
  engines: Engines;
  models: Models;
  limits: Limits;
  dynamicModels: DynamicModelsModule;
  live: Live;
  dashboard: Dashboard;
  promptCache: PromptCacheModule;
}

export function openOperator({
  config,
  telemetry,
  primary,
  storage,
  mail: { origin },
  alerts,
  authentication: { accounts },
  engines: { pool, tuning },
  models: { models, modelSettings, lifecycle },
  limits: { admission },
  dynamicModels: { hub, served },
  live: { live },
  dashboard: { guard, organizationLimits, monthTokens },
  promptCache: { promptCache },
}: OperatorContext): Promise<Operator> {
  const { log } = telemetry;
  const { bus, directory, tuneRuns, requests: requestLog, usage, prices, budgets, history } = storage;
  const { organizations, members, serviceAccounts, users, signIns, secondFactors, apiKeys, attempts, audit, now } =
    directory;
  return openModule(async (undo) => {
    const pulls = new Pulls(hub, bus, log);
    undo.add(() => pulls.close());
    if (primary) await tuneRuns.endUnfinished('The server ended.', new Date());
    const tunings = new Tunings({
      runs: tuneRuns,
      tuning,
      accounts,
      requestLog,
      bus,
      log,
      url: () => readServerRecord(config.data_dir)?.url ?? null,
      concurrencyLimit: async (model) => {
        const [first] = await organizations.all();
        const view = first === undefined ? null : await organizations.get(first.id);
        return view === null
          ? null
          : admission.limitsOf({ organizationId: view.id, limits: view.settings.limits }, model).concurrency;
      },
    });
    undo.add(() => tunings.close());
    const fileFacts = new FileFacts(loadOptions(config));
    const deps: OperatorRouteDeps = {
      config,
      now,
      origin,
      organizations,
      members,
      serviceAccounts,
      users,
      signIns,
      secondFactors,
      apiKeys,
      audit,
      note: (actor, action, target) => audit.note(null, actor, action, target),
      usage,
      prices,
      budgets,
      requestLog,
      pool,
      models,
      modelSettings,
      served,
      lifecycle,
      hub,
      hubEndpoint: config.hub.endpoint,
      pulls,
      fileFacts,
      tuning,
      tuneRuns,
      tunings,
      live,
      history,
      organizationLimits,
      monthTokens,
      alerts,
      promptCache,
    };
    const admin =
      primary && config.admin.token !== null
        ? new HttpServer({
            config: { ...config, host: config.admin.host },
            telemetry,
            authenticate: (key, from) => accounts.authenticate(key, from),
            routes: operatorRoutes(tokenOperators(config.admin.token, attempts, now), deps),
          })
        : null;
    undo.add(() => admin?.close());
    return {
      tunings,
      pulls,
      fileFacts,
      admin,
      routes: config.dashboard.enabled ? operatorRoutes(sessionOperators(guard), deps) : [],
    };
  });
}
