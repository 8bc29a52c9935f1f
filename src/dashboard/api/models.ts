// GET …/models: the models that an organization may use, with metadata from their files.

import { modelBytes } from '../../engine/catalog.js';
import type { ModelPool } from '../../engine/model-pool.js';
import type { ServedModels } from '../../generation/served-models.js';
import type { Route } from '../../http/exchange.js';
import type { DashboardModel } from '../../shared/wire/models.js';
import type { Guard } from './guard.js';

export interface ModelDeps {
  guard: Guard;
  models: Pick<ServedModels, 'describe'>;
  pool: Pick<ModelPool, 'get'>;
}

export function modelRoutes({ guard, models, pool }: ModelDeps): Route[] {
  return [
    guard.member('viewer', {
      method: 'GET',
      path: '/organizations/:org/models',
      handler: ({ exchange }) =>
        exchange.json(200, { object: 'list', data: describeModels({ models, pool }), has_more: false, next: null }),
    }),
  ];
}

/**
 * The models are sorted by tier, highest first. Retired models are included, because keys and usage data may still
 * refer to them.
 */
export function describeModels({ models, pool }: Omit<ModelDeps, 'guard'>): DashboardModel[] {
  return models.describe().map((one) => {
    const pooled = pool.get(one.id);
    const info = pooled?.status.state === 'ready' ? pooled.status.engine.info : null;
    return {
      id: one.id,
      adapter_of: one.adapter?.parent ?? null,
      display_name: one.displayName,
      demonstration: one.demonstration,
      lifecycle: one.lifecycle,
      state: pooled === undefined ? 'unloaded' : pooled.status.state === 'elsewhere' ? 'ready' : pooled.status.state,
      load_progress: pooled?.status.state === 'loading' ? pooled.status.progress : null,
      context_window: one.contextWindow,
      max_output_tokens: one.maxOutputTokens,
      task: one.task,
      embedding_dimensions: one.embeddingDimensions === null ? null : [...one.embeddingDimensions],
      input_modalities: [...one.inputModalities],
      reasoning_efforts: [...one.efforts],
      default_reasoning_effort: one.defaultEffort,
      sampling_defaults: { ...one.sampling },
      deprecated_at: one.deprecatedAt,
      retires_at: one.retiresAt,
      successor: one.successor,
      file_bytes:
        pooled === undefined || pooled.model.upstream !== undefined
          ? null
          : modelBytes(pooled.model.adapter?.path ?? pooled.model.file),
      parameters: info?.parameters ?? null,
      quantization: info?.quantization ?? null,
      architecture: info?.architecture ?? null,
      upstream: pooled?.model.upstream === undefined ? null : pooled.model.upstream.servers.length,
    };
  });
}
