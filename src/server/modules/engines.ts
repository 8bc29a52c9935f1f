// The pool of local engines, and the engine settings that can change at run time.

import { EngineTuning } from '../../dashboard/admin/engine-tuning.js';
import type { KvTier } from '../../engine/kv-tier/kv-tier.js';
import type { AttachedEngine } from '../../engine/kv-tier/messages.js';
import { ModelPool } from '../../engine/model-pool.js';
import { loadOptions } from '../engine-settings.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Storage } from './storage.js';

export interface Engines extends Module {
  readonly pool: ModelPool;
  /** Connects the storage tier to all engines, loaded now or later. Primary thread only. */
  connect(tier: Pick<KvTier, 'attach' | 'detach'>): void;
  readonly tuning: EngineTuning;
}

export function openEngines({
  config,
  telemetry,
  primary,
  storage: { engineSettings, holds, tierClient, bus },
}: AppContext & { storage: Storage }): Promise<Engines> {
  return openModule(async (undo) => {
    let tier: Pick<KvTier, 'attach' | 'detach'> | null = null;
    const loaded = new Map<string, AttachedEngine>();
    const pool = new ModelPool(
      loadOptions(config),
      undefined,
      async (pooled, engine) => {
        engine.onDelivered = (delayMs) => telemetry.delivered(delayMs);
        const { key, file } = pooled;
        if (tierClient !== null) engine.tier = { client: tierClient, key };
        const options = pool.loadOf(pooled.names[0] ?? '')?.options;
        if (options !== undefined) loaded.set(key, { key, file, options });
        if (options !== undefined) await tier?.attach({ key, file, options });
        if (primary) await tuning.apply(pooled, engine);
      },
      async ({ key }) => {
        loaded.delete(key);
        await tier?.detach(key, config.engine.drain_ms);
      },
      primary ? null : async (name) => (await bus.ask('adapter.state', { name }))[0] ?? null,
    );
    if (primary) undo.add(bus.on('adapter.state', ({ name }) => pool.adapterState(name) ?? null));
    const tuning = new EngineTuning(engineSettings, holds, pool, config, telemetry.log);
    undo.add(() => tuning.close());
    if (primary) {
      await tuning.forgetGiven();
      await tuning.watchHolds();
    }
    undo.add(() => pool.close());
    const connect: Engines['connect'] = (connected) => {
      tier = connected;
      for (const engine of loaded.values()) void connected.attach(engine);
    };
    return { pool, tuning, connect };
  });
}
