// The configured hub and its cache on disk. Used by commands, by the server at startup, and on behalf of operators.

import type { Config } from '../config/settings.js';
import { HubCache } from './hub-cache.js';
import { HubClient } from './hub-client.js';
import { HubError } from './hub-error.js';
import { projectorFor } from './hub-files.js';
import { totalMemory } from '../engine/machine-memory.js';
import { HUB_SCHEME, parseModelRef, showModelRef } from './model-ref.js';
import type { ModelRef } from './model-ref.js';
import { cached, pull, wholeWeights } from './pull.js';
import { removable, remove } from './remove.js';
import { searchHub } from './search-hub.js';
import type { HubMatch } from './search-hub.js';
import type { Pulled, PullOptions } from './pull.js';

/** Servable weights in the cache. */
export interface OnDisk {
  /** A reference: OWNER/REPO:QUANTIZATION. */
  readonly ref: string;
  readonly quantization: string;
  readonly path: string;
  readonly bytes: number;
  readonly projector: string | null;
  /** Whether the weights belong to a revision that is no longer the current one. */
  readonly isOld: boolean;
}

export class Hub {
  readonly #client: HubClient;
  readonly cache: HubCache;

  constructor({ hub }: Pick<Config, 'hub'>) {
    this.#client = new HubClient({ endpoint: hub.endpoint, token: hub.token, offline: hub.offline });
    this.cache = new HubCache(hub.cache);
  }

  /** Contacts the hub and downloads missing or changed files. Throws HubError. */
  pull(ref: ModelRef, options: Partial<PullOptions> = {}): Promise<Pulled> {
    return pull(ref, this.#client, this.cache, { memory: totalMemory(), ...options });
  }

  /** Does not contact the hub. Returns null if the cache does not contain all files. */
  cached(ref: ModelRef, memory = totalMemory()): Pulled | null {
    return cached(ref, this.cache, memory);
  }

  /** Uses the cache if it contains all files, otherwise the hub. Throws HubError. */
  async get(ref: ModelRef, options: Partial<PullOptions> = {}): Promise<Pulled> {
    return this.cached(ref, options.memory) ?? this.pull(ref, options);
  }

  /** Returns repositories on the hub whose names match, most downloads first. Throws HubError. */
  search(text: string, signal?: AbortSignal): Promise<HubMatch[]> {
    return searchHub(this.#client, text, signal);
  }

  /** Deletes weights from the cache, and returns the freed bytes. Throws HubError. */
  remove(ref: ModelRef): number {
    const found = removable(this.cache, ref);
    remove(this.cache, found);
    return found.bytes;
  }

  /** Returns all servable weights in the cache, by name. */
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
  /** Called after a model has been downloaded. */
  onPulled?(name: string, pulled: Pulled): void;
  /** If false, models that are not in the cache keep their `hf:` reference. */
  readonly fetches?: boolean;
}

/**
 * Returns the settings with hub models (`hf:OWNER/REPO`) replaced by their paths. Missing models are downloaded. Throws
 * HubError.
 */
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
