// Opens the LoRA adapters that operators load at run time, and the routes that load, unload and list adapters.

import { DynamicAdapters } from '../../dashboard/admin/dynamic-adapters.js';
import type { Actor } from '../../accounts/audit.js';
import { adapterRoutes } from '../../protocol/models/adapter-routes.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Authentication } from './authentication.js';
import type { DynamicModelsModule } from './dynamic-models.js';
import type { Engines } from './engines.js';
import type { Models } from './models.js';
import type { Secrets } from './secrets.js';
import type { Storage } from './storage.js';

export interface AdaptersContext extends AppContext {
  storage: Storage;
  authentication: Authentication;
  engines: Engines;
  models: Models;
  secrets: Secrets;
  /** Not used directly, but must be opened first, because adapters can belong to the models that it adds. */
  dynamicModels: DynamicModelsModule;
}

export function openAdapters({
  config,
  telemetry: { log },
  primary,
  storage: { adapters: store, sealer: sealerState, bus },
  authentication: { readers },
  engines: { pool },
  models: { models, modelSettings, configuredNames },
  secrets: { sealer },
}: AdaptersContext): Promise<Module> {
  return openModule(async (undo) => {
    const adapters = await DynamicAdapters.open({
      store,
      pool,
      models,
      bus,
      log,
      folder: config.adapters.folder,
      taken: configuredNames,
      isUnloaded: (name) => modelSettings.row(name).unloaded === true,
      onServed: (name) => {
        sealer.know(name);
        if (primary)
          sealerState
            .knownModels([name])
            .catch((err: unknown) => log.error({ err, model: name }, 'cannot store the adapter name'));
      },
    });
    undo.add(() => adapters.close());
    const operator = (ip: string): Actor => ({ type: 'operator_api', id: null, email: null, ip });
    return {
      routes: adapterRoutes({
        list: () =>
          pool
            .adapters()
            .flatMap(({ model: { id, adapter } }) =>
              adapter === undefined ? [] : [{ id, path: adapter.path, scale: adapter.scale }],
            ),
        load: (request, ip) => adapters.load(request, operator(ip)),
        unload: (name, ip) => adapters.unload(name, operator(ip)),
        check: (exchange) => readers.checkOperator(exchange),
      }),
    };
  });
}
