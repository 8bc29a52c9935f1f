// Opens the modules of a service. They are closed in reverse order, so connections close first, and each writer closes
// before the store that it writes to. Each module has its own file in src/server/modules.

import { checkedDrafts } from '../engine/catalog.js';
import type { ThreadBus } from '../shared/bus.js';
import type { DisposableStack } from './disposable-stack.js';
import { configuredModels } from './engine-settings.js';
import type { AppContext, Module } from './module.js';
import { openAdapters } from './modules/adapters.js';
import { openAlerts } from './modules/alerts.js';
import { openAuthentication, type Authentication } from './modules/authentication.js';
import { openBackground, type Background } from './modules/background.js';
import { openBatches, type Batches } from './modules/batches.js';
import { openBackups } from './modules/backups.js';
import { openBudgets } from './modules/budgets.js';
import { openDashboard } from './modules/dashboard.js';
import { openDynamicModels } from './modules/dynamic-models.js';
import { openEngines, type Engines } from './modules/engines.js';
import { openGeneration } from './modules/generation.js';
import { openHttp, type Http } from './modules/http.js';
import { openKvTier } from './modules/kv-tier.js';
import { openLimits, type Limits } from './modules/limits.js';
import { openLive, type Live } from './modules/live.js';
import { openMail, type Mail } from './modules/mail.js';
import { openMaintenance } from './modules/maintenance.js';
import { openMetrics } from './modules/metrics.js';
import { openModels, type Models } from './modules/models.js';
import { openOllama } from './modules/ollama.js';
import { openPromptCache, type PromptCacheModule } from './modules/prompt-cache.js';
import { openOperator, type Operator } from './modules/operator.js';
import { openRecorders } from './modules/recorders.js';
import { openRecovery, type Recovery } from './modules/recovery.js';
import { openSecrets } from './modules/secrets.js';
import { openWebhooks } from './modules/webhooks.js';
import { openStorage, type Storage } from './modules/storage.js';

/** The opened modules that a Service exposes or controls. */
export interface App {
  readonly storage: Storage;
  readonly background: Background;
  readonly batches: Batches;
  readonly mail: Mail;
  readonly authentication: Authentication;
  readonly engines: Engines;
  readonly models: Models;
  readonly recovery: Recovery;
  readonly limits: Limits;
  readonly live: Live;
  readonly operator: Operator;
  readonly promptCache: PromptCacheModule;
  readonly http: Http;
}

/**
 * `threads`: the bus that connects all threads of this process. Every opened module is registered with `undo`, so that
 * modules are closed even if a later one fails to open.
 */
export async function openApp(context: AppContext, threads: ThreadBus, undo: DisposableStack): Promise<App> {
  const modules: Module[] = [];
  const opened = async <M extends Module>(opening: Promise<M>): Promise<M> => {
    const module = await opening;
    undo.add(() => module.close());
    modules.push(module);
    return module;
  };
  // Checked first, so that configuration errors are reported before anything is opened.
  const catalog = configuredModels(context.config);
  const drafts = checkedDrafts(catalog);

  const storage = await opened(openStorage({ ...context, threads }));
  const recorders = await opened(openRecorders({ ...context, storage }));
  const background = await opened(openBackground({ ...context, storage }));
  const mail = await opened(openMail(context));
  const authentication = await opened(openAuthentication({ ...context, storage }));

  const engines = await opened(openEngines({ ...context, storage }));
  const models = await opened(openModels({ ...context, catalog, drafts, storage, authentication, engines }));
  const recovery = await opened(openRecovery({ ...context, storage, recorders, background }));
  const limits = await opened(openLimits({ ...context, storage }));
  const budgets = await opened(openBudgets({ ...context, storage, threads }));
  await opened(openMetrics({ ...context, storage, engines, models }));
  const secrets = await opened(openSecrets({ ...context, storage, authentication, models }));
  await opened(openWebhooks({ ...context, storage, background, secrets }));
  const kvTier = await opened(openKvTier({ ...context, storage, engines, secrets }));
  const promptCache = await opened(openPromptCache({ ...context, storage, engines, models, secrets, kvTier, threads }));
  const dynamicModels = await opened(openDynamicModels({ ...context, storage, engines, models, secrets }));
  await opened(openAdapters({ ...context, storage, authentication, engines, models, secrets, dynamicModels }));

  const running = { ...context, storage, authentication, engines, models, limits };
  const generation = await opened(openGeneration({ ...running, recorders, background, budgets, secrets }));
  const batches = await opened(openBatches({ ...running, recorders, background, generation }));
  await opened(openMaintenance({ ...context, storage, mail }));
  await opened(openBackups(context));
  const alerts = await opened(openAlerts({ ...context, storage, mail, budgets }));
  const live = await opened(openLive({ ...context, storage, engines, alerts }));
  const dashboard = await opened(
    openDashboard({ ...running, background, budgets, mail, secrets, generation, batches }),
  );
  const operator = await opened(
    openOperator({ ...running, mail, alerts, dynamicModels, live, dashboard, promptCache }),
  );
  await opened(openOllama({ ...context, authentication, engines, models, dynamicModels, generation, operator }));
  const http = await opened(
    openHttp({ ...context, modules: [...modules], recorders, authentication, limits, live, generation }),
  );

  return {
    storage,
    background,
    batches,
    mail,
    authentication,
    engines,
    models,
    recovery,
    limits,
    live,
    operator,
    promptCache,
    http,
  };
}
