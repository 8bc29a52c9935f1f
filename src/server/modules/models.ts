// The configured models: their lifecycle and settings, their upstreams, and the routes that describe them. Models start
// loading here and continue after the service has opened.

import { ModelSettings } from '../../dashboard/admin/model-settings.js';
import { checkedAliases } from '../../engine/catalog.js';
import type { CatalogModel, DraftFile } from '../../engine/catalog.js';
import { ModelLifecycle } from '../../engine/model-lifecycle.js';
import { ServedModels } from '../../generation/served-models.js';
import { SharedCounts } from '../../generation/upstream/shared-counts.js';
import { Upstreams } from '../../generation/upstream/upstreams.js';
import { modelsRoutes } from '../../protocol/models/routes.js';
import { stateRoutes } from '../../protocol/models/state-routes.js';
import { generationLimits, upstreamOptions, upstreamShape } from '../engine-settings.js';
import { failedModels, modelHealth, modelStates } from '../engine-status.js';
import type { FailedModel } from '../engine-status.js';
import { logModelEvent, logTemplateProblem } from '../model-log.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import { logUpstreamEvent } from '../upstream-log.js';
import type { Authentication } from './authentication.js';
import type { Engines } from './engines.js';
import type { Storage } from './storage.js';

export interface Models extends Module {
  readonly models: ServedModels;
  readonly lifecycle: ModelLifecycle;
  readonly upstreams: Upstreams;
  readonly modelSettings: ModelSettings;
  /** Names and aliases from the configuration. */
  readonly configuredNames: ReadonlySet<string>;
  /**
   * Returns the models that cannot be served. Must be called after loading has finished; after that, /readyz reports
   * these models. Throws StartError if the chat templates cannot be checked.
   */
  failedModels(): readonly FailedModel[];
}

export interface ModelsContext extends AppContext {
  /** Models from the configuration. */
  catalog: readonly CatalogModel[];
  /** Draft models, keyed by the target model's name. */
  drafts: ReadonlyMap<string, DraftFile>;
  storage: Storage;
  authentication: Authentication;
  engines: Engines;
}

export function openModels({
  config,
  telemetry,
  shared,
  primary,
  catalog,
  drafts,
  storage: { bus, modelSettings: settingsStore, replays },
  authentication: { readers },
  engines: { pool },
}: ModelsContext): Promise<Models> {
  const { log } = telemetry;
  return openModule(async (undo) => {
    const modelSettings = await ModelSettings.open(settingsStore, bus, (err) =>
      log.error({ err }, 'cannot read model settings'),
    );
    undo.add(() => modelSettings.close());
    for (const model of catalog) {
      const loaded = modelSettings.row(model.id).unloaded !== true;
      if (model.adapter === undefined) pool.add(model, loaded, drafts.get(model.id) ?? null);
      else void pool.addAdapter(model, loaded); // a load failure is reported in the adapter's status
    }
    modelSettings.onChanged(() => {
      for (const {
        model: { id },
      } of pool.list())
        pool.setLoaded(id, modelSettings.row(id).unloaded !== true, config.engine.drain_ms);
    });
    const aliases = checkedAliases(catalog, config.models.aliases);
    const lifecycle = new ModelLifecycle({
      pool,
      report: (news) => {
        logModelEvent(news, log);
        if (news.type === 'loading' || news.type === 'unloaded')
          bus.publish('model.lifecycle', { model: news.model, unloaded: news.type === 'unloaded' });
      },
    });
    undo.add(() => lifecycle.close());
    undo.add(bus.on('model.lifecycle', (message) => lifecycle.follow(message)));
    const upstreams = new Upstreams(catalog, {
      ...upstreamOptions(config),
      counts: new SharedCounts(shared.upstreams, upstreamShape(config), bus.index),
      meter: (labels) => telemetry.upstream(labels),
      report: (news) => logUpstreamEvent(news, log),
      other: async (name, signal) => {
        const other = models.find(name);
        await other.ensureLoaded({ signal });
        return other.ready();
      },
    });
    undo.add(() => upstreams.close());
    if (primary) upstreams.look();
    const models: ServedModels = new ServedModels(
      pool,
      generationLimits(config),
      { aliases, declared: (model) => modelSettings.declared(model) },
      lifecycle,
      upstreams,
    );
    models.replays = replays;
    if (primary) models.onTemplateProblem = (model, problem) => logTemplateProblem(model, problem, log);
    let failed: readonly FailedModel[] = [];
    return {
      models,
      lifecycle,
      upstreams,
      modelSettings,
      configuredNames: new Set([...catalog.map(({ id }) => id), ...aliases.keys()]),
      failedModels: () => {
        failed = failedModels(pool, models);
        return failed;
      },
      routes: [
        ...stateRoutes({ states: () => modelStates(pool, models), check: (exchange) => readers.check(exchange) }),
        ...modelsRoutes({
          list: () => models.describe(),
          find: (asked, isShown) => models.describeOne(asked, isShown),
          webSearch: config.tools.web_search.url !== null,
        }),
      ],
      health: () => ({ models: modelHealth(pool, upstreams, failed) }),
    };
  });
}
