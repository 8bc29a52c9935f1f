// The models a server offers under their public names, each with the prompter that talks to its engine.
// Loading and failing are the pool's affair; this file turns a pool entry into "serve it" or a precise
// error. Event-loop thread only.
import { apiError, type ErrorExtra } from '../errors.js';
import type { CatalogModel } from '../engine/catalog.js';
import type { Engine } from '../engine/engine.js';
import type { ModelPool, PooledModel } from '../engine/model-pool.js';
import type { ModelDescription } from '../http/models-routes.js';
import { TemplateError } from './chat-template.js';
import { Prompter, type GenerationLimits } from './prompter.js';
import type { ReasoningEffort } from './types.js';

export interface ServedModel {
  readonly name: string;
  /** What a request that leaves them open gets. */
  readonly sampling: CatalogModel['sampling'];
  /** Throws ApiError 503 while the model loads or after it failed to. */
  ready(): Prompter;
}

export class ServedModels {
  // Keyed by engine as well: a reloaded model gets a new prompter.
  readonly #prompters = new WeakMap<Engine, Map<string, Prompter | TemplateError>>();

  constructor(private readonly pool: ModelPool, private readonly limits: GenerationLimits) {}

  /** Throws ApiError 404 for an unknown or retired name. */
  find(name: string): ServedModel {
    const pooled = this.pool.get(name);
    if (pooled === undefined || pooled.model.lifecycle === 'retired') {
      throw apiError('model_not_found', `There is no model named ${JSON.stringify(name.slice(0, 64))} on this server.`, 'model');
    }
    return {
      name,
      sampling: pooled.model.sampling,
      ready: () => {
        const prompter = this.#prompter(pooled.model, engineOf(pooled));
        if (prompter instanceof TemplateError) throw apiError('model_unavailable', `${name} has an unusable chat template.`);
        return prompter;
      },
    };
  }

  /** Models that are loaded and yet cannot be served, each with the file and the reason. Compiles the chat templates. */
  problems(): { model: string; message: string }[] {
    return this.pool.list().flatMap(({ model, status }) => {
      const prompter = status.state === 'ready' ? this.#prompter(model, status.engine) : null;
      return prompter instanceof TemplateError ? [{ model: model.id, message: `${model.file}: ${prompter.message}` }] : [];
    });
  }

  /** What is published of each model, highest tier first. Windows of a model that is not ready are the catalog's, or 0. */
  describe(): ModelDescription[] {
    return this.pool.list().map(({ model, status }) => {
      const made = status.state === 'ready' ? this.#prompter(model, status.engine) : null;
      const prompter = made instanceof TemplateError ? null : made;
      return {
        id: model.id, displayName: model.display_name, createdAt: new Date(model.created * 1000),
        contextWindow: prompter?.contextWindow ?? model.context_window ?? 0,
        maxOutputTokens: prompter?.maxOutputTokens ?? model.max_output_tokens ?? 0,
        efforts: prompter?.markers == null ? ['none'] : EFFORTS,
        defaultEffort: prompter?.markers == null ? 'none' : model.default_effort,
        sampling: model.sampling, lifecycle: model.lifecycle, inputModalities: model.input_modalities,
      };
    });
  }

  #prompter(model: CatalogModel, engine: Engine): Prompter | TemplateError {
    let byName = this.#prompters.get(engine);
    if (byName === undefined) this.#prompters.set(engine, (byName = new Map()));
    let prompter = byName.get(model.id);
    if (prompter === undefined) byName.set(model.id, (prompter = this.#make(model, engine)));
    return prompter;
  }

  #make(model: CatalogModel, engine: Engine): Prompter | TemplateError {
    try {
      return new Prompter(engine, model, this.limits);
    } catch (error) {
      if (error instanceof TemplateError) return error;
      throw error;
    }
  }
}

const EFFORTS: readonly ReasoningEffort[] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'];

/** Rough, and only a hint for clients: progress says how much is left, not how long it took. */
const LOAD_RETRY_MS = 5_000;

function engineOf({ model, status }: PooledModel): Engine {
  const unavailable = (code: 'model_loading' | 'model_unavailable', message: string, extra: ErrorExtra = {}) => apiError(code, message, null, extra);
  switch (status.state) {
    case 'ready': return status.engine;
    case 'loading':
      throw unavailable('model_loading', `${model.id} is loading (${Math.floor(status.progress * 100)} %).`, { retryAfterMs: LOAD_RETRY_MS });
    case 'failed':
      throw unavailable('model_unavailable', `${model.id} could not be loaded.`);
  }
}
