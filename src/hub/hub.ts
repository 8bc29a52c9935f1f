// The hub that the settings name, and what of it is on disk: what commands, the start of a server and operators use.

import type { Config } from '../config/settings.js';
import { HubCache } from './hub-cache.js';
import { HubClient } from './hub-client.js';
import { HubError } from './hub-error.js';
import { projectorFor } from './hub-files.js';
import { totalMemory } from '../engine/machine-memory.js';
import { HUB_SCHEME, parseModelRef, showModelRef } from './model-ref.js';
import type { ModelRef } from './model-ref.js';
import { cached, pull, wholeWeights } from './pull.js';
import type { Pulled, PullOptions } from './pull.js';

/** Weights in the cache that can be served. */
export interface OnDisk {
  /** What names them: OWNER/REPO:QUANTIZATION. */
  readonly ref: string;
  readonly quantization: string;
  readonly path: string;
  readonly bytes: number;
  readonly projector: string | null;
  /** Where the revision has moved on since: this is an older one. */
  readonly isOld: boolean;
}

export class Hub {
  readonly #client: HubClient;
  readonly cache: HubCache;

  constructor({ hub }: Pick<Config, 'hub'>) {
    this.#client = new HubClient({ endpoint: hub.endpoint, token: hub.token, offline: hub.offline });
    this.cache = new HubCache(hub.cache);
  }

  /** Asks the hub, and fetches what is not there or has changed. Throws HubError. */
  pull(ref: ModelRef, options: Partial<PullOptions> = {}): Promise<Pulled> {
    return pull(ref, this.#client, this.cache, { memory: totalMemory(), ...options });
  }

  /** Without asking the hub; null if it is not there in whole. */
  cached(ref: ModelRef, memory = totalMemory()): Pulled | null {
    return cached(ref, this.cache, memory);
  }

  /** From the cache if it is there, else from the hub. Throws HubError. */
  async get(ref: ModelRef, options: Partial<PullOptions> = {}): Promise<Pulled> {
    return this.cached(ref, options.memory) ?? this.pull(ref, options);
  }

  /** Everything in the cache that can be served, by name. */
  onDisk(): OnDisk[] {
    const { cache } = this;
    return cache.repos().flatMap((repo) => {
      const seen = new Set<string>();
      return cache.commits(repo, 'main').flatMap((commit, at) => {
        const files = cache.files(repo, commit);
        return wholeWeights(cache, repo, commit, files).flatMap((weights): OnDisk[] => {
          if (seen.has(weights.entry)) return [];
          seen.add(weights.entry);
          const folder = cache.snapshot(repo, commit);
          const projector = projectorFor(weights, files);
          return [
            {
              ref: showModelRef({ repo, weights: weights.quantization, revision: 'main' }),
              quantization: weights.quantization,
              path: weights.entry === '' ? folder : `${folder}/${weights.entry}`,
              bytes: weights.bytes,
              projector: projector === null ? null : `${folder}/${projector.path}`,
              isOld: at > 0,
            },
          ];
        });
      });
    });
  }
}

export interface HubModelOptions extends Partial<Omit<PullOptions, 'onProgress' | 'onRetry'>> {
  onProgress?(name: string, progress: Parameters<NonNullable<PullOptions['onProgress']>>[0]): void;
  onRetry?(name: string, why: string, waitMs: number): void;
  /** One is there now. */
  onPulled?(name: string, pulled: Pulled): void;
  /** False: what is not in the cache stays named as it is. */
  readonly fetches?: boolean;
}

/** The settings with the models of a hub (`hf:OWNER/REPO`) named by their paths, fetched if they are not there. Throws HubError. */
export async function withHubModels(
  config: Config,
  { fetches = true, onProgress, onRetry, onPulled, ...options }: HubModelOptions = {},
): Promise<Config> {
  if (!config.model.some(({ path }) => path.startsWith(HUB_SCHEME))) return config;
  const hub = new Hub(config);
  const model: { name: string; path: string }[] = [];
  for (const one of config.model) {
    if (!one.path.startsWith(HUB_SCHEME)) {
      model.push(one);
      continue;
    }
    const ref = parseModelRef(one.path);
    let found = hub.cached(ref, options.memory);
    if (found === null && fetches) {
      try {
        found = await hub.pull(ref, {
          ...options,
          onProgress: (progress) => onProgress?.(one.name, progress),
          onRetry: (why, waitMs) => onRetry?.(one.name, why, waitMs),
        });
      } catch (error) {
        if (error instanceof HubError)
          throw new HubError(error.failure, `model "${one.name}": ${error.message}`, error);
        throw error;
      }
      onPulled?.(one.name, found);
    }
    model.push(found === null ? one : { name: one.name, path: found.path });
  }
  return { ...config, model };
}
