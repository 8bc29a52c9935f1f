// The pool of local engines, and the engine settings that can change at run time.

import { EngineTuning } from '../../dashboard/admin/engine-tuning.js';
import { ModelPool } from '../../engine/model-pool.js';
import { loadOptions } from '../engine-settings.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Storage } from './storage.js';

export interface Engines extends Module {
  readonly pool: ModelPool;
  readonly tuning: EngineTuning;
}

export function openEngines({
  config,
  telemetry,
  primary,
  storage: { engineSettings, holds },
}: AppContext & { storage: Storage }): Promise<Engines> {
  return openModule(async (undo) => {
    const pool = new ModelPool(loadOptions(config), undefined, async (pooled, engine) => {
      engine.onDelivered = (delayMs) => telemetry.delivered(delayMs);
      if (primary) await tuning.apply(pooled, engine);
    });
    const tuning = new EngineTuning(engineSettings, holds, pool, config, telemetry.log);
    undo.add(() => tuning.close());
    if (primary) {
      await tuning.forgetGiven();
      await tuning.watchHolds();
    }
    undo.add(() => pool.close());
    return { pool, tuning };
  });
}
