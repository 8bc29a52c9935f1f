// Opens the operators' interface to the prompt cache, and pinned prompts.

import type { ThreadBus } from '../../shared/bus.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import { answerOf, OwnPromptCache, RemotePromptCache, type PromptCache } from '../prompt-cache/prompt-cache.js';
import { PromptPins } from '../prompt-cache/prompt-pins.js';
import type { Engines } from './engines.js';
import type { KvTierModule } from './kv-tier.js';
import type { Models } from './models.js';
import type { Secrets } from './secrets.js';
import type { Storage } from './storage.js';

export interface PromptCacheModule extends Module {
  readonly promptCache: PromptCache;
}

export interface PromptCacheContext extends AppContext {
  storage: Storage;
  engines: Engines;
  models: Models;
  secrets: Secrets;
  kvTier: KvTierModule;
  /** Bus between the threads of this process. */
  threads: ThreadBus;
}

export function openPromptCache({
  config,
  telemetry: { log },
  primary,
  storage: { promptPins, directory },
  engines: { pool },
  models: { models },
  secrets: { box },
  kvTier: { tier },
  threads,
}: PromptCacheContext): Promise<PromptCacheModule> {
  return openModule(async (undo) => {
    if (!primary) return { promptCache: new RemotePromptCache(threads) };
    const { organizations } = directory;
    const { disk: mode, min_tokens: minTokens, max_pinned: max } = config.kv;
    const pins =
      tier === null
        ? null
        : await PromptPins.open({ store: promptPins, tier, models, pool, organizations, box, max, minTokens, log });
    undo.add(() => pins?.close());
    const promptCache = new OwnPromptCache({
      pool,
      disk: tier === null || pins === null || mode === 'off' ? null : { tier, mode, pins },
      organizations,
      maxPinned: max,
    });
    undo.add(threads.on('prompt_cache.command', (command) => answerOf(promptCache, command)));
    return { promptCache };
  });
}
