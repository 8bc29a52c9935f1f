// What the settings mean for the engines: which models there are, how they are loaded, what a generation may take.

import type { Config } from '../config/settings.js';
import type { LoadOptions } from '../engine/addon-types.js';
import { modelOfFile, readCatalog, withOverrides } from '../engine/catalog.js';
import type { CatalogModel } from '../engine/catalog.js';
import type { GenerationLimits } from '../generation/generation-limits.js';

/** What `load` of the addon takes, from the settings. */
export function loadOptions(config: Config): LoadOptions {
  const { engine, images } = config;
  return {
    threads: engine.threads, device: engine.device, isa: engine.isa, arithmetic: engine.arithmetic,
    batchInvariant: engine.batch_invariant, ...(engine.cublaslt === null ? {} : { cublaslt: engine.cublaslt }), kvType: engine.kv_type,
    maxContext: engine.max_context, kvBytes: engine.kv_bytes, maxBatchTokens: engine.max_batch_tokens,
    maxSequences: engine.max_sequences, stepMs: engine.step_ms, queueMax: engine.queue_max, queueMaxTokens: engine.queue_max_tokens,
    visionMaxPixels: images.max_pixels, visionMaxTiles: images.max_tiles, embeddingBytes: images.cache_bytes,
    prefixCache: engine.prefix_cache, snapshotTokens: engine.snapshot_tokens, speculation: engine.speculation,
  };
}

/** What a generation may take, from the settings. */
export function generationLimits({ engine, images, structured_outputs: structured }: Config): GenerationLimits {
  return {
    queueWaitMs: engine.queue_wait_ms, maxGenerationMs: engine.max_generation_ms, loadWaitMs: engine.load_wait_ms, loadWaitMax: engine.queue_max,
    grammar: { whiteSpace: structured.white_space, callWhiteSpace: structured.call_white_space },
    images: { perImage: images.max_tokens, perRequest: images.max_request_tokens },
  };
}

/** The models the settings ask for. Throws CatalogError. */
export function configuredModels(config: Config): CatalogModel[] {
  const models = config.model.length > 0 ? config.model.map(({ name, path }) => modelOfFile(name, path)) : readCatalog();
  return withOverrides(models, config.models.overrides);
}
