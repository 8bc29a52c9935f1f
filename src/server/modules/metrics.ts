// Engine metrics and log lines about the engines. The threads of a process share their metrics over the bus.

import { EngineNotes } from '../../engine/engine-notes.js';
import { engineGauges, notedEngines } from '../engine-status.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Engines } from './engines.js';
import type { Storage } from './storage.js';

export function openMetrics({
  telemetry,
  primary,
  storage: { bus },
  engines: { pool },
}: AppContext & { storage: Storage; engines: Engines }): Promise<Module> {
  return openModule((undo) => {
    telemetry.observeEngines(() => engineGauges(pool));
    const notes = primary ? new EngineNotes(() => notedEngines(pool), telemetry.log) : null;
    undo.add(() => notes?.close());
    telemetry.shareWith(bus);
    return {};
  });
}
