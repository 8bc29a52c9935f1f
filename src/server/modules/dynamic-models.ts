// Models on disk, and the models that operators serve in addition to the configured ones.

import { DynamicModels } from '../../dashboard/admin/dynamic-models.js';
import { Hub } from '../../hub/hub.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Engines } from './engines.js';
import type { Models } from './models.js';
import type { Secrets } from './secrets.js';
import type { Storage } from './storage.js';

export interface DynamicModelsModule extends Module {
  readonly hub: Hub;
  readonly served: DynamicModels;
}

export interface DynamicModelsContext extends AppContext {
  storage: Storage;
  engines: Engines;
  models: Models;
  secrets: Secrets;
}

export function openDynamicModels({
  config,
  telemetry: { log },
  primary,
  storage: { served: store, sealer: sealerState, bus },
  engines: { pool },
  models: { configuredNames, modelSettings },
  secrets: { sealer },
}: DynamicModelsContext): Promise<DynamicModelsModule> {
  return openModule(async (undo) => {
    const hub = new Hub(config);
    const served = await DynamicModels.open({
      store,
      pool,
      hub,
      bus,
      log,
      taken: configuredNames,
      graceMs: config.engine.max_generation_ms,
      isUnloaded: (name) => modelSettings.row(name).unloaded === true,
      onServed: (name) => {
        sealer.know(name);
        if (primary)
          sealerState
            .knownModels([name])
            .catch((err: unknown) => log.error({ err, model: name }, 'cannot store the model name'));
      },
    });
    undo.add(() => served.close());
    return { hub, served };
  });
}
