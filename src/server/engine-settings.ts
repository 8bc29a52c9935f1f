// Derives the models, their load options and the generation limits from the configuration.

import type { Config } from '../config/settings.js';
import type { LoadOptions } from '../engine/addon-types.js';
import { isUpstreamAddress } from '../config/kinds.js';
import { upstreamOfAddress, type Upstream } from '../config/upstream.js';
import { configuredAdapters } from '../engine/adapters.js';
import { CatalogError, modelElsewhere, modelOfFile, readCatalog, withOverrides } from '../engine/catalog.js';
import type { CatalogModel } from '../engine/catalog.js';
import type { GenerationLimits } from '../generation/generation-limits.js';
import type { SharedShape } from '../generation/upstream/shared-counts.js';
import type { UpstreamOptions } from '../generation/upstream/upstream-provider.js';

/** Arguments for the addon's `load`. */
export function loadOptions(config: Config): LoadOptions {
  const { engine, images } = config;
  return {
    threads: engine.threads,
    device: engine.device,
    isa: engine.isa,
    arithmetic: engine.arithmetic,
    batchInvariant: isBatchInvariant(config),
    ...(engine.cublaslt === null ? {} : { cublaslt: engine.cublaslt }),
    kvType: engine.kv_type,
    maxContext: engine.max_context,
    kvBytes: engine.kv_bytes,
    maxBatchTokens: engine.max_batch_tokens,
    maxSequences: engine.max_sequences,
    stepMs: engine.step_ms,
    queueMax: engine.queue_max,
    queueMaxTokens: engine.queue_max_tokens,
    visionMaxPixels: images.max_pixels,
    visionMaxTiles: images.max_tiles,
    embeddingBytes: images.cache_bytes,
    prefixCache: engine.prefix_cache,
    snapshotTokens: engine.snapshot_tokens,
    speculation: engine.speculation,
    mtp: engine.mtp,
  };
}

const isBatchInvariant = ({ engine, given }: Config): boolean =>
  engine.batch_invariant && (engine.arithmetic !== 'fast' || 'engine.batch_invariant' in given);

/** Limits for generations on local engines. */
export function generationLimits({ engine, images, structured_outputs: structured }: Config): GenerationLimits {
  return {
    queueWaitMs: engine.queue_wait_ms,
    maxGenerationMs: engine.max_generation_ms,
    snapshotTokens: engine.snapshot_tokens,
    speculates: engine.speculation !== 'off',
    loadWaitMs: engine.load_wait_ms,
    loadWaitMax: engine.queue_max,
    grammar: { whiteSpace: structured.white_space, callWhiteSpace: structured.call_white_space },
    images: { perImage: images.max_tokens, perRequest: images.max_request_tokens },
  };
}

/** Limits for generations on upstream models. */
export function upstreamOptions({
  engine,
  upstream,
}: Config): Pick<UpstreamOptions, 'settings' | 'queueWaitMs' | 'queueMax' | 'maxGenerationMs'> {
  return {
    settings: upstream,
    queueWaitMs: engine.queue_wait_ms,
    queueMax: engine.queue_max,
    maxGenerationMs: engine.max_generation_ms,
  };
}

/**
 * Number of threads, and upper bounds on the number of upstream models and servers. These determine the size of the
 * shared memory for counting requests in flight.
 */
export function upstreamShape({ http: { threads }, model, models: { overrides } }: Config): SharedShape {
  const set = Object.values(overrides).flatMap(({ upstream }) =>
    upstream === undefined ? [] : [upstream.servers.length],
  );
  return {
    models: model.length + set.length,
    servers: model.length + set.reduce((sum, servers) => sum + servers, 0),
    threads,
  };
}

/** The models listed in the configuration. Throws CatalogError. */
export function configuredModels(config: Config): CatalogModel[] {
  const { overrides } = config.models;
  const elsewhere = (name: string): Upstream | undefined => overrides[name]?.upstream;
  const named =
    config.model.length > 0
      ? config.model.map(({ name, path }) =>
          elsewhere(name) !== undefined
            ? modelElsewhere(name, elsewhere(name) as Upstream)
            : isUpstreamAddress(path)
              ? modelElsewhere(name, upstreamOfAddress(path))
              : modelOfFile(name, path),
        )
      : readCatalog().map((model) =>
          elsewhere(model.id) === undefined ? model : modelElsewhere(model.id, elsewhere(model.id) as Upstream),
        );
  const known = new Set(named.map(({ id }) => id));
  const added = Object.keys(overrides)
    .filter((name) => elsewhere(name) !== undefined && !known.has(name))
    .map((name) => modelElsewhere(name, elsewhere(name) as Upstream));
  const all = [...named, ...added];
  const isAdapter = (name: string): boolean =>
    !all.some(({ id }) => id === name) && all.some(({ id }) => name.startsWith(`${id}:`));
  const models = withOverrides(
    all,
    Object.fromEntries(
      Object.entries(overrides).flatMap(([name, { adapters: _, ...rest }]) => (isAdapter(name) ? [] : [[name, rest]])),
    ),
  );
  checkFallbacks(models);
  const adapters = configuredAdapters(models, config.adapter, overrides, config.given['adapter'] ?? '--adapter');
  for (const name of Object.keys(overrides))
    if (isAdapter(name) && !adapters.some(({ id }) => id === name))
      throw new CatalogError('models', `"${name}" is not an adapter of the configuration`);
  return [...models, ...adapters];
}

/** Checks that every fallback names a known model and that no chain of fallbacks is circular. Throws CatalogError. */
function checkFallbacks(models: readonly CatalogModel[]): void {
  const byName = new Map(models.map((model) => [model.id, model]));
  for (const model of models) {
    const seen = new Set([model.id]);
    for (
      let next = model.upstream?.fallback ?? null;
      next !== null;
      next = byName.get(next)?.upstream?.fallback ?? null
    ) {
      const where = `models "${model.id}": upstream.fallback`;
      if (!byName.has(next)) throw new CatalogError(where, `"${next}" is not one of ${[...byName.keys()].join(', ')}`);
      if (seen.has(next)) throw new CatalogError(where, `"${next}" forms a circular chain of fallbacks`);
      seen.add(next);
    }
  }
}
