// Engine metrics and log lines about the engines. The threads of a process share their metrics over the bus.

import { EngineNotes } from '../../engine/engine-notes.js';
import { engineGauges, notedEngines } from '../engine-status.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Engines } from './engines.js';
import type { Models } from './models.js';
import type { Storage } from './storage.js';

export function openMetrics({
  telemetry,
  primary,
  storage: { bus },
  engines: { pool },
  models: { models },
}: AppContext & { storage: Storage; engines: Engines; models: Models }): Promise<Module> {
  return openModule((undo) => {
    telemetry.observeEngines(() => engineGauges(pool, models));
    const notes = primary ? new EngineNotes(() => notedEngines(pool), telemetry.log) : null;
    undo.add(() => notes?.close());
    telemetry.shareWith(bus);
    return {};
  });
}
